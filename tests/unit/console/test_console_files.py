"""The page's files: small, no address outside, no markup made of text, all of them in the wheel."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path

import pytest

from penstock.console import STATIC

ROOT = Path(__file__).resolve().parents[3]
VENDOR = STATIC / "vendor"
FILES = sorted(path for path in STATIC.rglob("*") if path.is_file())
OURS = [path for path in FILES if VENDOR not in path.parents]
MODULES = [path for path in OURS if path.suffix == ".js"]
LINES = 400
IMPORT = re.compile(r"(?:from|import) \"([^\"]+)\"")
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|DOMParser|srcdoc"
    r"|\beval\(|new Function"
    r"|setAttribute\(\"style|style=\"|\son[a-z]+=\""
)
OUTSIDE = re.compile(r"https?://(?!www\.w3\.org/)|\"//|url\(")


def relative(path: Path) -> str:
    return str(path.relative_to(STATIC))


@pytest.mark.parametrize("path", OURS, ids=relative)
def test_a_file_is_short_and_stays_on_the_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LINES
    assert not OUTSIDE.search(text.replace("url(#arrow)", ""))


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_says_what_it_is_and_makes_no_markup(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("/**")
    assert not MARKUP.search(text), MARKUP.search(text)
    for target in IMPORT.findall(text):
        assert (path.parent / target).is_file(), f"imports {target}"


def test_the_page_has_no_script_or_style_of_its_own() -> None:
    text = (STATIC / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
    assert "<style" not in text and "style=" not in text
    named = re.findall(r"(?:src|href)=\"\./([^\"]+)\"", text)
    assert named and all((STATIC / name).is_file() for name in named)


def test_every_module_is_used() -> None:
    used = {STATIC / "app.js", STATIC / "theme.js"}
    used |= {
        (path.parent / target).resolve()
        for path in MODULES
        for target in IMPORT.findall(path.read_text(encoding="utf-8"))
    }
    assert set(MODULES) <= used


def test_vendored_files_are_those_that_are_noted() -> None:
    noted = dict(
        re.findall(r"^\| `([^`]+)` .* `([0-9a-f]{64})` \|$", (VENDOR / "VERSIONS.md").read_text(), re.M)
    )
    there = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.iterdir()
        if path.suffix in (".js", ".css")
    }
    assert noted == there
    for package in ("preact", "htm", "uPlot", "dagre"):
        assert "ermi" in (VENDOR / f"{package}.LICENSE.txt").read_text(encoding="utf-8")


def test_the_wheel_has_every_file() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["penstock"]
    shipped = {path for pattern in patterns for path in (ROOT / "penstock").glob(pattern)}
    assert set(FILES) <= shipped
