"""One self-contained page from sections: images inside, styles inside, no script, nothing from the network."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from ..utils.io import provenance

__all__ = ["Image", "Section", "page"]


@dataclass(frozen=True)
class Image:
    """An image of a page.

    Args:
        png: its bytes.
        alt: what it shows, for those who don't see it.
        caption: a few words below it.
        marked: whether it is highlighted.
        frame: a colour (CSS) of its frame, if it is to stand out otherwise.
        width: in CSS pixels, at most; images shrink with the window.
    """

    png: bytes
    alt: str
    caption: str = ""
    marked: bool = False
    frame: str = ""
    width: int = 168

    @property
    def source(self) -> str:
        """The image as a data URI."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


@dataclass(frozen=True)
class Section:
    """A card: title, text, small print, rows of images with their labels, `per_line` to a line, code, and facts."""

    title: str
    text: str = ""
    note: str = ""
    rows: Sequence[tuple[str, Sequence[Image]]] = ()
    per_line: int = 5
    code: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def anchor(self) -> str:
        """The title as an address within the page."""
        return "".join(c if c.isalnum() else "-" for c in self.title.lower()).strip("-")


def page(
    title: str, lead: str, sections: Mapping[str, Sequence[Section]], about: Mapping[str, Any] | None = None
) -> str:
    """A whole HTML page.

    Args:
        title: of the page.
        lead: one or two sentences below it.
        sections: by the heading they stand under; "" for none.
        about: where the content comes from; `erlangen.utils.io.provenance()` if None.
    """
    environment = Environment(
        loader=PackageLoader("erlangen.report"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["whole"] = lambda words: re.sub(r"(?<=\d) (?=%)", "\u00a0", words)  # no % begins a line
    about = provenance() if about is None else about
    return environment.get_template("page.html").render(title=title, lead=lead, sections=sections, about=about)
