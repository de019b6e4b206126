"""A job at one moment, for people: as lines of text, and as a piece of HTML for a notebook.

All text of it is shown without secrets; in HTML nothing that came from names, records or errors is markup.
"""

from __future__ import annotations

import datetime as dt
import html
from dataclasses import dataclass

from penstock.core.discreet import plain, shown
from penstock.core.durations import age
from penstock.core.job import JobStatus

_LONGEST = 2000
"""Characters of an error."""
_COLOURS = {
    JobStatus.RUNNING: "#2e7d32",
    JobStatus.FINISHED: "#2e7d32",
    JobStatus.FAILED: "#c62828",
    JobStatus.FAILING: "#c62828",
    JobStatus.RESTARTING: "#b26a00",
}
_BOX = (
    "font:13px/1.5 system-ui,sans-serif;border:1px solid #8888;border-radius:6px;"
    "padding:.5em .9em;display:inline-block;max-width:60em"
)


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """The newest one that is complete."""

    number: int
    ended_ms: int
    duration_ms: int
    state_bytes: int


@dataclass(frozen=True, slots=True)
class Done:
    """How much of something that is counted is done; ``of`` is all of it, as far as that is known."""

    what: str
    done: int
    of: int


@dataclass(frozen=True, slots=True)
class JobView:
    """What is worth a look. Times are milliseconds since the epoch, rates per second."""

    job_id: str
    run_id: str
    name: str
    status: JobStatus
    started: str
    """In the form of the calendar."""
    runs_ms: int
    attempt: int
    batch: bool
    bounded: bool
    """Whether it ends by itself."""
    now_ms: int
    rows_in: int | None = None
    rows_in_rate: float = 0.0
    rows_out: int | None = None
    rows_out_rate: float = 0.0
    checkpoint: LastCheckpoint | None = None
    watermark_ms: int | None = None
    stalled: str | None = None
    error: str | None = None
    page: str | None = None
    """Where its page is; a browser is let in by another address."""
    done: tuple[Done, ...] = ()
    """Largest first: stages, then tasks; or splits."""

    def lines(self) -> list[tuple[str, str]]:
        """What is known, each with its name."""
        made = [(done.what, f"{done.done:,} of {done.of:,}") for done in self.done]
        if self.rows_in is not None:
            made.append(("rows read", f"{self.rows_in:,} ({self.rows_in_rate:,.1f}/s)"))
        if self.rows_out is not None:
            made.append(("rows to sinks", f"{self.rows_out:,} ({self.rows_out_rate:,.1f}/s)"))
        if self.checkpoint is not None:
            made.append(("last checkpoint", self._checkpoint(self.checkpoint)))
        if self.watermark_ms is not None:
            made.append(("watermark", self._watermark(self.watermark_ms)))
        if self.stalled is not None:
            made.append(("held back", self.stalled))
        if self.error is not None:
            made.append(("error", self.error[:_LONGEST]))
        return made

    def head(self) -> str:
        """The job in a few words."""
        attempt = "" if self.batch or self.attempt < 1 else f", attempt {self.attempt}"
        passed = "after" if self.status.is_terminal_state() else "for"
        return f"{self.status.name} {passed} {age(self.runs_ms)}{attempt}"

    def text(self) -> str:
        """Lines for a terminal."""
        page = [] if self.page is None else [("page", self.page)]
        rest = [f"  {name}: {value}" for name, value in (*self.lines(), *page)]
        return shown("\n".join([f"{plain(self.name)}: {self.head()}", *rest]))

    def html(self) -> str:
        """A piece of HTML that needs nothing else."""
        rows = [_row(name, _escaped(value)) for name, value in self.lines()]
        if self.page is not None and self.page.startswith(("http://", "https://")):
            link = html.escape(shown(self.page), quote=True)
            opened = "<code>page_link()</code> of the job, or <code>penstock ui</code>, lets a browser in"
            rows.append(_row("page", f'<a href="{link}" rel="noreferrer">{link}</a> ({opened})'))
        colour = _COLOURS.get(self.status, "#666")
        state = f'<span style="color:{colour};font-weight:600">{_escaped(self.head())}</span>'
        table = f'<table style="border-collapse:collapse">{"".join(rows)}</table>'
        return f'<div style="{_BOX}"><b>{_escaped(plain(self.name))}</b> {state}{table}</div>'

    def _checkpoint(self, last: LastCheckpoint) -> str:
        ago = age(max(0, self.now_ms - last.ended_ms))
        return f"{last.number}, {ago} ago, in {last.duration_ms:,} ms, {last.state_bytes:,} bytes of state"

    def _watermark(self, mark: int) -> str:
        try:
            moment = dt.datetime.fromtimestamp(mark / 1000, dt.UTC)
        except (OverflowError, ValueError, OSError):
            return f"{mark:,} ms"
        behind = self.now_ms - mark
        lag = f" ({age(behind)} behind the clock)" if 0 <= behind < 10 * 365 * 86_400_000 else ""
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC{lag}"


def _row(name: str, value: str) -> str:
    first = '<td style="padding:0 1em 0 0;opacity:.7;text-align:left;vertical-align:top">'
    second = '<td style="text-align:left;white-space:pre-wrap">'
    return f"<tr>{first}{_escaped(name)}</td>{second}{value}</td></tr>"


def _escaped(text: str) -> str:
    return html.escape(shown(text), quote=True)
