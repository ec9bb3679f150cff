"""What a user has typed: the names of options, and which of them were given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, get_type_hints

import tyro

__all__ = ["given", "spelled"]

NOTHING = "\0"  # a default that nobody can type


def spelled(command: Any) -> dict[str, str]:
    """The word that a user knows each field of a command by: the name of an option, or of a positional argument."""
    places = {
        name
        for name, kind in get_type_hints(type(command), include_extras=True).items()
        if tyro.conf.Positional in getattr(kind, "__metadata__", ())
    }
    names = [field.name for field in fields(command)]
    return {name: name.upper() if name in places else f"--{name.replace('_', '-')}" for name in names}


def given(command: Any, arguments: Sequence[str]) -> frozenset[str]:
    """The fields of a command that were typed, even if they were given their defaults.

    Args:
        command: what the arguments were read as; its positional arguments are optional strings.
        arguments: those of the command, without its name.
    """
    options = {word.partition("=")[0].replace("_", "-") for word in arguments if word.startswith("--")}
    words = spelled(command)
    places = [name for name, word in words.items() if not word.startswith("--")]
    # Only the parser knows which words are values of options and which are positional.
    other = tyro.cli(type(command), args=arguments, default=replace(type(command)(), **dict.fromkeys(places, NOTHING)))
    found = {name for name, word in words.items() if word in options}
    return frozenset(found | {name for name in places if getattr(other, name) != NOTHING})
