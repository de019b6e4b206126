"""The documentation is true: links lead somewhere, tables are current, the code in it runs."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from penstock.core.options import OPTIONS
from penstock.testing.local import local_cluster
from scripts import write_configuration

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OUTSIDE = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")]
PAGES = [*OUTSIDE, *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SOURCE_FILE = re.compile(r"`([a-z_]+/[a-z_/]+\.py)`")


def python_blocks(page: Path) -> list[str]:
    return PYTHON.findall(page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """What headings can be linked to as, the way forges make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> Iterator[str]:
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists() or (anchor and anchor not in anchors(found)):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    dead = list(dead_links(page))
    assert not dead, f"{page.relative_to(ROOT)}: {', '.join(dead)}"


def test_the_settings_are_current() -> None:
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    tables = page[page.index(write_configuration.START) :]
    assert tables == write_configuration.markdown(), "run: python scripts/write_configuration.py"
    assert write_configuration.SECTIONS.keys() <= OPTIONS.keys(), "a heading stands nowhere"
    assert tables.count("\n| `") == len(OPTIONS)


# Errors are read by section, notes begin with their problem, and the repository's pages go their own ways.
BEGIN_OTHERWISE = ("docs/design/", "docs/errors/", "README", "CONTRIBUTING", "CHANGELOG", "SECURITY")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_begins_with_what_can_be_done_after_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT).as_posix()
    if name.startswith(BEGIN_OTHERWISE):
        assert text.startswith("# ") and text.partition("\n\n")[2].strip()
    else:
        assert re.match(r"# .+\n\nAfter this page ", text)


BY_VERSION = {"CHANGELOG.md"}
"""Has a heading for each release, and there was one."""
TWO_SCREENS = 80
LONG = [page for page in PAGES if len(page.read_text(encoding="utf-8").splitlines()) > TWO_SCREENS]


@pytest.mark.parametrize(
    "page",
    [page for page in LONG if page.name not in BY_VERSION],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_long_page_can_be_entered_by_its_headings(page: Path) -> None:
    """Of these the site and forges make tables of contents."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    assert len(re.findall(r"^#{2,3} ", text, re.MULTILINE)) >= 3


def test_every_design_note_is_in_the_index() -> None:
    index = (DOCS / "design" / "000-index.md").read_text(encoding="utf-8")
    missing = [note.name for note in (DOCS / "design").glob("[0-9]*.md") if f"({note.name})" not in index]
    assert missing == ["000-index.md"]


@pytest.mark.parametrize(
    "page", ["architecture.md", *(f"design/{p.name}" for p in (DOCS / "design").glob("*.md"))]
)
def test_files_named_in_the_docs_exist(page: str) -> None:
    named = SOURCE_FILE.findall((DOCS / page).read_text(encoding="utf-8"))
    places = [ROOT / "penstock", ROOT]
    missing = [name for name in named if not any((place / name).exists() for place in places)]
    assert not missing, f"{page}: {missing}"


def run(code: str, namespace: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run a page's code as a script would be."""
    names = {"__name__": "__main__"} if namespace is None else namespace
    exec(compile(code, "<documentation>", "exec"), names)
    return names


def test_the_program_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = python_blocks(ROOT / "README.md")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    monkeypatch.chdir(tmp_path)
    with local_cluster(slots=2):
        run(code)
    lines = {line.split("> ")[-1] for line in capsys.readouterr().out.splitlines()}
    assert lines == {"('ann', 0, 2)", "('bob', 0, 1)", "('ann', 60000, 1)"}


def test_the_data_frames_and_sql_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with local_cluster(slots=2):
        names = run(python_blocks(ROOT / "README.md")[1])
        by_methods = capsys.readouterr().out
        for block in python_blocks(ROOT / "README.md")[2:]:
            run(block, names)
        by_sql = capsys.readouterr().out
    for printed in (by_methods, by_sql):
        assert len(printed.splitlines()) == 4  # with the names of the columns
        assert all(part in printed for part in ("fr", "de", "1.785", "2.380", "3.570"))


def test_the_guide_to_dataframes(capsys: pytest.CaptureFixture[str]) -> None:
    with local_cluster(slots=2):
        names = run("\n".join(python_blocks(DOCS / "guides" / "dataframe.md")))
        more = names["more"].to_pylist()
    found = {
        (row["country"], row["window_start"].minute, row["orders"], row["revenue"]) for row in names["rows"]
    }
    assert found == {("de", 0, 1, 7.0), ("fr", 0, 1, 2.0), ("de", 1, 1, 4.0)}
    assert sorted((row["size"], row["twice"]) for row in more) == [
        ("large", 10),
        ("one", 2),
        ("one", 2),
        ("some", 4),
    ]
    assert capsys.readouterr().out.strip()


def test_the_guide_to_columns(capsys: pytest.CaptureFixture[str]) -> None:
    with local_cluster(slots=2):
        names = run("\n".join(python_blocks(DOCS / "guides" / "columns.md")))
    made = [(i // 6000, ("de", "fr", "it")[i % 3], i % 100) for i in range(30_000)]
    large = [entry for entry in made if entry[2] > 50]
    assert sum(row.orders for row in names["rows"]) == len(large)
    assert sum(row.total for row in names["rows"]) == sum(amount for _, _, amount in large)
    assert capsys.readouterr().out.strip()


def test_the_guide_to_notebooks(capsys: pytest.CaptureFixture[str]) -> None:
    with local_cluster(slots=1):
        names = run("\n".join(python_blocks(DOCS / "guides" / "notebooks.md")))
    assert names["first"] == [1, 4, 9, 16, 25]
    assert sum(entry["numInputRows"] for entry in names["client"].recent_progress) == 100_000
    assert "10000000000" in capsys.readouterr().out


def test_the_guide_to_windows() -> None:
    run("\n".join(python_blocks(DOCS / "guides" / "windows.md")))


@pytest.fixture
def connectors(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The guide's code as the module that it says it should be."""
    code = "\n".join(python_blocks(DOCS / "guides" / "writing-sources-and-sinks.md"))
    path = tmp_path_factory.mktemp("guide") / "guide_connectors.py"
    path.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("guide_connectors", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "guide_connectors", module)
    spec.loader.exec_module(module)
    return module


def test_the_guides_connectors_run_a_job(connectors: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (tmp_path / "out").mkdir()
    with local_cluster(slots=2):
        connectors.shout(tmp_path / "in.txt", tmp_path / "out")
    parts = list((tmp_path / "out").iterdir())
    assert sorted(line for part in parts for line in part.read_text().splitlines()) == ["ONE", "THREE", "TWO"]


@pytest.mark.parametrize("suite", ["TestLinesSource", "TestPartsSink"])
def test_the_guides_connectors_conform(connectors: ModuleType, suite: str, tmp_path: Path) -> None:
    kind = getattr(connectors, suite)
    checks = [name for name in dir(kind) if name.startswith("test_")]
    assert len(checks) > 3
    for name in checks:
        directory = tmp_path / name
        directory.mkdir()
        getattr(kind(), name)(directory)
