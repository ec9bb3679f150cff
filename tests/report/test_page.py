import base64
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from erlangen.report.canvas import encode
from erlangen.report.page import Image, Section, page

VOID = {"br", "hr", "img", "input", "link", "meta"}


class Reader(HTMLParser):
    """Collects what a page loads, its anchors and links, and checks that tags close in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.images, self.loads, self.ids, self.links = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "img":
            self.images.append(values)
        if tag in {"script", "link", "iframe", "object", "embed"}:
            self.loads.append(tag)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if "href" in values else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def check_self_contained(text):
    """What every page must satisfy; returns its reader."""
    reader = Reader(text)
    assert reader.open == []
    assert reader.loads == []
    assert all(image["src"].startswith("data:image/png;base64,") and image["alt"] for image in reader.images)
    assert re.findall(r"https?://|@import|url\(", text) == []
    assert len(set(reader.ids)) == len(reader.ids)
    assert all(link.startswith("#") and link[1:] in reader.ids for link in reader.links)
    return reader


def dot() -> bytes:
    return encode(np.zeros((2, 2, 3), dtype=np.uint8))


def test_names_of_any_length_stay_within_the_page():
    """What a browser breaks nowhere, it lets run out of the window: titles, captions and labels are users' names."""
    rule = re.search(r"^body \{(.*)\}$", page("x" * 200, "", {}), re.MULTILINE)
    assert rule is not None
    assert "overflow-wrap: anywhere;" in rule[1]


def test_a_page_is_self_contained():
    card = Section("One", "words", "small print", [("row", [Image(dot(), "a dot", "dot", True)])], code="a < b")
    text = page("Title", "Lead", {"": [card], "More": [Section("Two")]})
    reader = check_self_contained(text)
    assert base64.b64decode(reader.images[0]["src"].partition(",")[2]) == dot()
    assert reader.ids == ["one", "two"]
    assert "a &lt; b" in text
    for words in ("Title", "Lead", "words", "small print", "torch", "erlangen 0"):
        assert words in text


def test_text_is_escaped():
    text = page("<b>", "&", {"": [Section("<script>alert(1)</script>")]})
    assert Reader(text).loads == []


@pytest.mark.parametrize(
    "broken",
    [
        "<div>",
        '<img src="https://example.org/a.png" alt="a">',
        '<script src="x.js"></script>',
        '<a href="#nowhere">a</a>',
        '<p id="a"></p><p id="a"></p>',
    ],
)
def test_broken_twins_fail(broken):
    with pytest.raises(AssertionError):
        check_self_contained(broken)


def test_where_it_comes_from():
    about = {"versions": {"thing": "3"}, "commit": "a" * 40, "dirty": True, "device_name": "cpu", "time": "now"}
    text = page("T", "", {}, about=about)
    assert "commit aaaaaaaaaaaa (changed)" in text
    assert "thing 3" in text


def test_no_line_begins_with_a_percent_sign():
    image = Image(b"", "an image", "surely, 97 %")
    card = Section("One", "5 % of all", "6 % more", [("8 % off", [image])], code="7 % 2", facts={"level": "95 %"})
    text = page("Title", "Lead of 9 %", {"": [card]})
    assert [words for words in ("5", "6", "8", "9", "95", "97") if f"{words}\xa0%" not in text] == []
    assert "7 % 2" in text
