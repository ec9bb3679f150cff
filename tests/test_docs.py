"""The README and the pages under docs say what is true: their code runs, their links lead somewhere."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from erlangen import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_code_blocks_run(page):
    torch.set_default_dtype(torch.float32)  # what a reader has
    text = page.read_text(encoding="utf-8")
    namespace = {"__name__": "docs"}
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert len(blocks) == text.count("```python")
    for match in blocks:
        line = text[: match.start(1)].count("\n")
        exec(compile("\n" * line + match[1], name(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [t for t in targets if not t.startswith("https://") and not (page.parent / t).is_file()] == []


def anchors(page: Path) -> set[str]:
    """Those of its headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_into_pages_lead_to_headings(page):
    targets = re.findall(r"\]\(([^)#\s]*\.md|)#([^)\s]+)\)", page.read_text(encoding="utf-8"))
    assert [(to, anchor) for to, anchor in targets if anchor not in anchors(page.parent / to if to else page)] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_options_that_pages_name_are_there(page):
    commands = (cli.Fit, cli.Audit, cli.Check, cli.Symmetries, cli.Demo, cli.Gallery, cli.Figures, cli.Reproduce)
    known = {f"--{field.name.replace('_', '-')}" for command in commands for field in fields(command)}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text(encoding="utf-8")))
    assert named - known <= {"--list", "--help", "--junitxml"}


def test_the_pages_have_code_and_pictures():
    for page in (ROOT / "README.md", ROOT / "docs" / "conventions.md"):
        text = page.read_text(encoding="utf-8")
        assert "```python" in text
        assert "![" in text


def test_every_figure_is_used_and_small():
    used = {match for page in PAGES for match in re.findall(r"images/([\w.-]+)", page.read_text(encoding="utf-8"))}
    for path in (ROOT / "docs" / "images").iterdir():
        assert path.name in used
        assert path.stat().st_size < {"gallery": 1_500_000, "demo": 500_000}.get(path.stem, 150_000)
