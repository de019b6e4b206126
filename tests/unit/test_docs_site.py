"""The documentation site shows every page, and what crawls it finds what is broken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.docs_check import found

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
ENTRIES = re.findall(r"^ +- (?:[^:\n]+: )?(\S+[^:\s])$", NAVIGATION, re.MULTILINE)
MADE = {"index.md", "contributing.md", "changes.md", "security.md", "licence.md"}
MADE |= {"examples/", "reference/", "notebooks/"}


def test_the_navigation_has_every_page_once() -> None:
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    folders = tuple(entry for entry in ENTRIES if entry.endswith("/"))
    assert sorted(page for page in pages if not page.startswith(folders)) == sorted(
        entry for entry in ENTRIES if entry not in {*MADE, *folders}
    )
    assert set(ENTRIES) >= MADE and len(ENTRIES) == len(set(ENTRIES))


def test_a_site_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h1 id="top">A</h1><a href="#top"></a><a href="in/b.html#b"></a>')
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.html").write_text(
        '<p id="b"><a href="../a.html"></a><a href="https://example.org"></a>'
    )
    (tmp_path / "a.css").write_text("a { background: url(data:,x) }")
    assert found(tmp_path) == (3, [])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<a href="gone.html">'),
        ("a.html", '<a href="in">'),
        ("a.html", '<a href="#gone">'),
        ("a.html", '<img src="gone.png">'),
        ("a.html", '<img src="https://example.org/a.png">'),
        ("a.html", '<script src="//example.org/a.js"></script>'),
        ("a.html", '<link rel="stylesheet" href="https://example.org/a.css">'),
        ("a.html", '<p style="background: url(https://example.org/a.png)">'),
        ("a.html", "<style>@import 'https://example.org/a.css'</style>"),
        ("a.html", '<pre class="mermaid">'),
        ("a.css", '@font-face { src: url("https://example.org/a.woff2") }'),
        ("a.css", '@import "//example.org/a.css"'),
        ("a.js", 'fetch("https://example.org")'),
    ],
)
def test_a_site_with_a_mistake(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / name).write_text(text)
    assert len(found(tmp_path)[1]) == 1
