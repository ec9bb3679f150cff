"""The plugin for pytest: a fixture and a marker for claims about models. It loads torch only when one is made.

    @pytest.mark.invariant("rotation", metric="consistency", at_least=0.9)
    def test_turns(model, data):
        ...

checks, before the body of the test runs, the claim about what the fixtures `model` and `data` (and `preprocess` and
`settings`, if the test has them) give. The values go into the JUnit report as properties of the test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

__all__ = ["assert_invariant", "pytest_configure", "pytest_runtest_call"]

MARKER = (
    "invariant(transform, metric='consistency', at_least=None, at_most=None): the model of the fixture `model` keeps "
    "to a limit on the images of the fixture `data`; see erlangen.audit.assert_invariant"
)


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def assert_invariant(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`erlangen.audit.assert_invariant`, which writes what it measures into the JUnit report."""

    def check(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return _check(request.node, *args, **kwargs)

    return check


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Checks the claims of markers, the one nearest to the test last."""
    given = getattr(item, "funcargs", {})
    for marker in reversed(list(item.iter_markers("invariant"))):
        if missing := [name for name in ("model", "data") if name not in given]:
            pytest.fail(
                f"invariant: the test has no {' and no '.join(missing)}; it needs fixtures model and data", False
            )
        options = {name: given[name] for name in ("preprocess", "settings") if name in given}
        try:
            _check(item, given["model"], given["data"], *marker.args, **{**options, **marker.kwargs})
        except (AssertionError, TypeError, ValueError) as error:  # TypeError: an argument that there is not
            # Not from the error, which pytest would print before it: the same words twice.
            raise pytest.fail.Exception(f"invariant: {error}", pytrace=False) from None


def _check(item: pytest.Item, *args: Any, **kwargs: Any) -> Any:
    from .invariant import BrokenClaimError
    from .invariant import assert_invariant as claim

    __tracebackhide__ = True
    try:
        found = claim(*args, **kwargs)
    except BrokenClaimError as error:
        _note(item, kwargs, error.found)
        raise
    _note(item, kwargs, found)
    return found


def _note(item: pytest.Item, options: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """What was measured goes into the JUnit report, whether the limit is kept or missed."""
    metric = options.get("metric", "consistency")
    item.user_properties += [(f"{metric} {name}", f"{value.mean:.6g}") for name, value in found.items()]
