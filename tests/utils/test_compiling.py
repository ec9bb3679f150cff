"""What the compiler is told, and that importing the package does not import it."""

import subprocess
import sys

import torch

from erlangen.utils.compiling import constant, uncompiled

LOW = ("transforms", "distributions", "nets", "data", "metrics", "models", "objectives", "align", "train")
PARTS = (*LOW, "report", "papers", "estimators", "audit")


def test_the_compiler_is_not_imported_with_the_package():
    """Which would take as long as torch itself; twin: what was decorated with torch's own words did."""
    code = f"import sys, {', '.join(f'erlangen.{part}' for part in PARTS)}; print('torch._dynamo' in sys.modules)"
    twin = "import sys, torch; torch.compiler.disable(print); print('torch._dynamo' in sys.modules)"
    told = [
        subprocess.run([sys.executable, "-c", c], capture_output=True, text=True).stdout.strip() for c in (code, twin)
    ]
    assert told == ["False", "True"]


def test_an_uncompiled_function_runs_as_it_is():
    """It sees that nothing is being compiled, in code that is; twin: without the decorator."""
    seen = []

    def look(x):
        seen.append(torch.compiler.is_compiling())
        return x

    for function in (uncompiled(look), look):
        torch.compiler.reset()
        compiled = torch.compile(lambda x, f=function: f(x + 1) * 2, backend="eager")
        assert compiled(torch.ones(())).item() == 4
    assert seen == [False, True]


def test_a_constant_is_computed_once():
    calls = []

    @constant
    def three():
        calls.append(1)
        return 3

    torch.compiler.reset()
    compiled = torch.compile(lambda x: x * three(), fullgraph=True, backend="eager")
    assert [compiled(torch.ones(())).item() for _ in range(3)] == [3, 3, 3]
    assert len(calls) == 1
