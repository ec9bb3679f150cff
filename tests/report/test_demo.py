"""The page of the demonstration."""

import ast
from types import SimpleNamespace

from erlangen.report.demo import _use


def test_its_code_is_python_whatever_its_folder_is_called():
    folder = "a \"b\" 'c' \\ d"
    code = ast.parse(_use(SimpleNamespace(folder=folder), SimpleNamespace(method="flow")).code)
    assert ast.literal_eval(code.body[2].value.args[0]) == f"{folder}/flow"
