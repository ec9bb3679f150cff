"""Finite groups acting on the picture."""

from __future__ import annotations

from ...transforms import Dihedral, Flips, Rotations, Shifts
from .base import Exhibit, batch, finite

__all__ = ["dihedral", "flips", "rotations4", "rotations6", "shifts"]


def rotations4(size: int) -> Exhibit:
    """Quarter turns."""
    text = "Quarter turns, counter-clockwise: exact, pixels go to pixels."
    return finite("Rotations(4)", text, Rotations(4), batch(size), ["0°", "90°", "180°", "270°"])


def rotations6(size: int) -> Exhibit:
    """Rotations that resample."""
    text = "n rotations by 360°/n. Other n than 1, 2 and 4 resample."
    return finite("Rotations(6)", text, Rotations(6), batch(size), [f"{60 * k}°" for k in range(6)])


def dihedral(size: int) -> Exhibit:
    """The symmetries of the square."""
    captions = ["0°", "90°", "180°", "270°", "flip", "90° ∘ flip", "180° ∘ flip", "270° ∘ flip"]
    text = "The eight symmetries of the square, exact: four turns, and four turns after a left–right flip."
    return finite("Dihedral(4)", text, Dihedral(4), batch(size), captions)


def flips(size: int) -> Exhibit:
    """The flip."""
    text = "The identity and the left–right flip: exact."
    return finite("Flips()", text, Flips(), batch(size), ["0", "flip"])


def shifts(size: int) -> Exhibit:
    """Cyclic shifts."""
    text = "Cyclic shifts to the right by multiples of 1/n of the width: exact, what leaves comes back."
    return finite("Shifts(4)", text, Shifts(4), batch(size), ["0", "1/4", "1/2", "3/4"])
