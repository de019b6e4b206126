"""A job as people see it: in text, in a notebook, on a terminal; nothing in it is markup or secret."""

from __future__ import annotations

import io
import re
import sys
import threading
from concurrent.futures import Future
from dataclasses import replace
from html.parser import HTMLParser
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from penstock.common import JobClient, JobStatus
from penstock.common._bar import bar, said
from penstock.common._job_view import Done, JobView, LastCheckpoint
from penstock.common._progress_bar import progress_bar, the_only_bar
from penstock.core.errors import ConfigError
from tests.patience import PATIENCE_S

VIEW = JobView(
    job_id="0" * 32,
    run_id="1" * 32,
    name="orders",
    status=JobStatus.RUNNING,
    started="2026-01-01T00:00:00.000Z",
    runs_ms=61_000,
    attempt=2,
    batch=False,
    bounded=True,
    now_ms=1_800_000_060_000,
    rows_in=1234,
    rows_in_rate=56.78,
    rows_out=12,
    checkpoint=LastCheckpoint(7, 1_800_000_059_000, 34, 5678),
    watermark_ms=1_800_000_000_000,
    page="http://127.0.0.1:8081",
    done=(Done("splits", 3, 12),),
)
HOSTILE = replace(
    VIEW,
    name="<script>alert(1)</script>\x1b[2J[bold]x",
    stalled="split </td><img src=x onerror=alert(1)>",
    error="at s3://me:hunter2@bucket & <b>\n  line two",
    status=JobStatus.FAILING,
)


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.links: list[str | None] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]


class Handle:
    """What ``show`` asks of a job."""

    def __init__(self, *views: JobView) -> None:
        self.views = list(views)

    def view(self) -> JobView:
        return self.views.pop(0) if len(self.views) > 1 else self.views[0]


class Notebook:
    """IPython, as far as it is asked for."""

    def __init__(self, kernel: object = "a kernel") -> None:
        self.shown: list[tuple[str, Any, str]] = []
        self.again = threading.Event()
        self.shell = SimpleNamespace(kernel=kernel)
        self.fails = False

    def get_ipython(self) -> object:
        return self.shell

    def display(self, data: Any, raw: bool, display_id: str) -> None:
        self.shown.append(("display", data, display_id))

    def update_display(self, data: Any, raw: bool, display_id: str) -> None:
        self.shown.append(("update", data, display_id))
        self.again.set()
        if self.fails:
            raise OSError("gone")


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    made = Notebook()
    module, display = ModuleType("IPython"), ModuleType("IPython.display")
    module.get_ipython = made.get_ipython  # type: ignore[attr-defined]
    display.display, display.update_display = made.display, made.update_display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return made


def test_all_that_matters_is_in_it() -> None:
    for text in (VIEW.text(), VIEW.html()):
        assert "orders" in text and "RUNNING" in text and "attempt 2" in text
        assert "1,234 (56.8/s)" in text and "3 of 12" in text and "7, 1" in text and "34 ms" in text
        assert "2027-01-15 08:00:00 UTC" in text and "http://127.0.0.1:8081" in text
    assert len(VIEW.html()) < 3000
    assert "FINISHED after 1 min 1 s" in replace(VIEW, status=JobStatus.FINISHED).text()


def test_html_holds_no_markup_and_no_secret_of_others() -> None:
    text = HOSTILE.html()
    tags = Tags(text)
    assert set(tags.found) == {"div", "b", "span", "table", "tr", "td", "a", "code"}
    assert tags.links == ["http://127.0.0.1:8081"], "nothing is loaded, one link is offered"
    assert "hunter2" not in text and "\x1b" not in text and "&lt;script&gt;" in text


def test_only_an_address_of_the_web_is_a_link() -> None:
    assert "<a" not in replace(VIEW, page="javascript:alert(1)").html()
    assert Tags(replace(VIEW, page='http://x" onclick="y').html()).found.count("a") == 1


def test_text_steers_no_terminal() -> None:
    text = HOSTILE.text()
    assert "\x1b" not in text and "hunter2" not in text and "line two" in text


def test_times_that_no_calendar_has() -> None:
    assert "ms" in replace(VIEW, watermark_ms=10**18).text()
    assert "behind" not in replace(VIEW, watermark_ms=VIEW.now_ms + 1).text()


def test_a_long_error_is_cut() -> None:
    assert len(replace(VIEW, error="x" * 100_000).html()) < 6000


def test_the_client_is_shown_by_a_notebook() -> None:
    client = JobClient(Handle(VIEW))  # type: ignore[arg-type]
    assert client._repr_html_() == VIEW.html()


def test_show_prints_where_there_is_no_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    JobClient(Handle(VIEW)).show()  # type: ignore[arg-type]
    assert capsys.readouterr().out == VIEW.text() + "\n"


def test_show_keeps_up_until_the_job_has_ended(notebook: Notebook) -> None:
    ended = replace(VIEW, status=JobStatus.FINISHED)
    before = set(threading.enumerate())
    JobClient(Handle(VIEW, VIEW, ended)).show(0.1)  # type: ignore[arg-type]
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_S)
    assert [kind for kind, *_ in notebook.shown] == ["display", "update", "update"]
    assert notebook.shown[-1][1]["text/html"] == ended.html()
    assert len({number for *_, number in notebook.shown}) == 1


def test_show_ends_when_it_is_called_again_or_the_notebook_is_gone(notebook: Notebook) -> None:
    client = JobClient(Handle(VIEW))  # type: ignore[arg-type]
    before = set(threading.enumerate())
    client.show(0.1)
    first = set(threading.enumerate()) - before
    notebook.fails = True
    client.show(0.1)
    both = (set(threading.enumerate()) - before) | first
    for thread in both:
        thread.join(PATIENCE_S)
    assert both and not any(thread.is_alive() for thread in both)


def test_a_terminal_of_ipython_is_no_notebook(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    notebook.shell = SimpleNamespace()
    JobClient(Handle(VIEW)).show()  # type: ignore[arg-type]
    assert not notebook.shown and "orders" in capsys.readouterr().out


@pytest.mark.parametrize("every", [0, -1, "1", None, True, float("nan"), 1e9])
def test_a_pace_that_is_none_is_refused(every: Any) -> None:
    with pytest.raises(ConfigError, match="seconds"):
        JobClient(Handle(VIEW)).show(every)  # type: ignore[arg-type]


# --- the bar ------------------------------------------------------------------------------------


def drawn(view: JobView) -> str:
    out = io.StringIO()
    Console(file=out, force_terminal=True, width=200, color_system=None).print(bar(view))
    return out.getvalue()


def test_the_bar_says_what_is_done_and_how_fast() -> None:
    assert said(VIEW) == "splits 3 of 12, 1,234 rows, 57/s, RUNNING for 1 min 1 s"
    assert "orders" in drawn(VIEW) and "splits 3 of 12" in drawn(VIEW)
    unknown = replace(VIEW, done=())
    assert said(unknown) == "1,234 rows, 57/s, RUNNING for 1 min 1 s" and "orders" in drawn(unknown)
    batch = replace(VIEW, rows_in=None, done=(Done("stages", 1, 3), Done("tasks", 4, 8)))
    assert said(batch).startswith("stages 1 of 3, tasks 4 of 8, RUNNING")


def test_the_bar_is_text_only() -> None:
    text = drawn(HOSTILE)
    assert "\x1b[2J" not in text and "[bold]x" in text
    assert len(text.splitlines()) == 1


def test_no_bar_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    before = threading.active_count()
    with progress_bar(lambda: VIEW, enabled=True):
        assert threading.active_count() == before
    assert capsys.readouterr().out == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Not a fixture: pytest has a standard output of its own for each phase of a test."""
    made = Terminal()
    monkeypatch.setattr(sys, "stdout", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    return made


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    looked = threading.Event()
    looks: list[int] = []

    def look() -> JobView:
        looks.append(1)
        if len(looks) > 3:
            looked.set()
        return VIEW

    with progress_bar(look, enabled=True):
        assert looked.wait(PATIENCE_S)
        with the_only_bar() as mine:
            assert not mine, "one is enough"
    assert re.search(r"orders.*splits 3 of 12", screen.getvalue())


@pytest.mark.parametrize(("enabled", "bounded"), [(False, True), (True, False)])
def test_no_bar_if_nobody_wants_it_or_the_job_never_ends(
    monkeypatch: pytest.MonkeyPatch, enabled: bool, bounded: bool
) -> None:
    screen = terminal(monkeypatch)
    before = threading.active_count()
    with progress_bar(lambda: replace(VIEW, bounded=bounded), enabled):
        assert threading.active_count() == before
    with the_only_bar() as mine:
        assert mine
    assert screen.getvalue() == ""


class _Closed:
    """Standard output of a program that has detached itself."""

    def isatty(self) -> bool:
        raise ValueError("I/O operation on closed file")


@pytest.mark.parametrize("output", [None, object(), _Closed()])
def test_a_program_without_an_output_runs_on(monkeypatch: pytest.MonkeyPatch, output: object) -> None:
    monkeypatch.setattr(sys, "stdout", output)
    with progress_bar(lambda: VIEW, enabled=True):
        pass
    with the_only_bar() as mine:
        assert not mine


def test_a_bar_whose_first_look_fails_hurts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)

    def look() -> JobView:
        raise OSError("no Spark any more")

    with progress_bar(look, enabled=True):
        print("the program goes on")
    assert screen.getvalue() == "the program goes on\n"


def test_a_bar_that_fails_hurts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch)
    asked = threading.Event()
    calls: list[int] = []

    def look() -> JobView:
        calls.append(1)
        if len(calls) > 1:
            asked.set()
            raise OSError("no Spark any more")
        return VIEW

    done: Future[int] = Future()
    with progress_bar(look, enabled=True):
        assert asked.wait(PATIENCE_S)
        done.set_result(1)
    assert done.result() == 1
