"""Conformance checks that anybody can run on their own classes: an `AssertionError` says what is wrong."""

from .conditionals import check_conditional
from .transforms import check_finite_group, check_group, check_transform

__all__ = ["check_conditional", "check_finite_group", "check_group", "check_transform"]
