"""``penstock demo``: a job, a stream of clicks, crashes in between, and the proof that nothing was lost."""

from __future__ import annotations

import importlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from penstock.cli.output import console, table
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError
from penstock.demo import drive
from penstock.demo.chart import bars, check_can_draw, draw, top_countries
from penstock.demo.drive import DemoSettings, Outcome, run_demo
from penstock.demo.modes import Mode
from penstock.demo.verdict import Standing
from penstock.spark.given import is_submitted

T = TypeVar("T")
Run = Callable[[DemoSettings, Callable[[Standing], None], Callable[[str], None]], T]
"""What runs the demo: it shows the standing, and says what is worth a line."""
_PLAIN_EVERY = 100
"""Without a terminal, one standing in so many is printed."""


@click.command()
@click.option(
    "--events", default=300_000, show_default=True, type=click.IntRange(1000), help="Clicks to count."
)
@click.option(
    "--crashes", default=1, show_default=True, type=click.IntRange(0, 20), help="How often to kill a worker."
)
@click.option(
    "--mode",
    default=Mode.EXACTLY_ONCE.value,
    show_default=True,
    type=click.Choice([m.value for m in Mode]),
    help="What checkpoints promise.",
)
@click.option("--master", help="Spark master on this machine.  [default: spark-submit's, else local[2]]")
@click.option("--keep", is_flag=True, help="Keep the topics and checkpoints.")
@click.option(
    "--chart", metavar="FILE", type=click.Path(path_type=Path), help="Draw a picture, too: penstock[charts]."
)
@click.option("--stay", is_flag=True, help="Kill nothing, and run until Ctrl-C: to look at the job's page.")
@click.pass_context
def demo(
    ctx: click.Context,
    events: int,
    crashes: int,
    mode: str,
    master: str | None,
    keep: bool,
    chart: Path | None,
    stay: bool,
) -> None:
    """Count clicks per country and hour while workers are killed; then compare with the truth.

    The program is examples/hourly_counts.py. Exit status 1 if the mode's promise was broken: exactly_once
    loses nothing and counts nothing twice, at_least_once loses nothing, none promises nothing.
    """
    if chart is not None:
        check_can_draw()
    given = _submitted_master()
    shown = master or given or "local[2]"
    if not _is_here(shown):
        raise ConfigError(
            "the demo kills processes of this machine: the Spark master must be local[N], or with all "
            f"workers here spark://localhost:PORT or yarn, not {shown}"
        )
    clock = SystemClock()
    started = clock.monotonic()
    out = console()
    chosen = None if master is None and given else shown
    if stay:
        out.print(f"Counting clicks on Spark {shown}, {events:,} a day.")
        _watched(DemoSettings(events, 0, chosen, keep, mode=Mode(mode), stay=True), out, drive.stay)
        return
    out.print(f"Counting {events:,} clicks on Spark {shown}; {crashes} worker(s) will be killed.")
    settings = DemoSettings(events, crashes, chosen, keep, mode=Mode(mode))
    if settings.mode.note:
        out.print(settings.mode.note)
    outcome = _watched(settings, out, run_demo)
    out.print(_summary(outcome))
    if chart is not None:
        draw(outcome.verdict, outcome.threshold, chart)
        out.print(f"chart: {chart.resolve()}")
    if keep:
        out.print(f"topics and checkpoints: {outcome.work}")
    out.print(f"{clock.monotonic() - started:.0f} s in all")
    line, ok = verdict_line(outcome, settings)
    out.print(Text(line, style="bold green" if ok else "bold red"))
    if not ok:
        ctx.exit(1)


def _submitted_master() -> str | None:
    if not is_submitted():
        return None
    found: str | None = importlib.import_module("penstock.spark.session").submitted_master()
    return found


def _is_here(master: str) -> bool:
    """Whether a master may have all its workers on this machine; it is seen when one is killed."""
    names = ("localhost", "127.0.0.1", socket.gethostname())
    return master == "yarn" or master.startswith(("local", *(f"spark://{name}:" for name in names)))


def _watched(settings: DemoSettings, out: Console, run: Run[T]) -> T:
    if out.is_terminal:
        with Live(console=out, refresh_per_second=8, transient=True) as live:
            return run(settings, lambda now: live.update(_line(now, settings)), out.print)
    seen = 0

    def show(now: Standing) -> None:
        nonlocal seen
        seen += 1
        if seen % _PLAIN_EVERY == 0:
            out.print(_line(now, settings))

    return run(settings, show, out.print)


def _line(now: Standing, settings: DemoSettings) -> Text:
    done = min(20, int(20 * now.produced / settings.events))
    return Text(
        f"{'━' * done}{'╌' * (20 - done)} in {now.produced:>9,}  counted {now.counted:>9,}  "
        f"alerts {now.alerts:>3}  checkpoints {now.checkpoints:>3}  crashes {now.crashes}  {now.status}"
    )


def _summary(outcome: Outcome) -> object:
    verdict = outcome.verdict
    most = max(verdict.counts.values(), default=0)
    rows = [
        (
            country,
            f"{clicks:,}",
            bars(verdict, country, most),
            max(count for (name, _), count in verdict.counts.items() if name == country),
            sum(name == country for name, _ in verdict.alerts),
        )
        for country, clicks in top_countries(verdict, 5)
    ]
    columns = ("COUNTRY", "CLICKS", "HOUR BY HOUR", "BUSIEST HOUR", "ALERTS")
    return table(columns, rows, right=("CLICKS", "BUSIEST HOUR", "ALERTS"))


def verdict_line(outcome: Outcome, settings: DemoSettings) -> tuple[str, bool]:
    """The last line, and whether all is well."""
    verdict, recoveries, mode = outcome.verdict, outcome.recoveries_s, settings.mode
    complete = verdict.events == settings.events and len(recoveries) == settings.crashes
    ok = complete and mode.is_kept(verdict)
    recovery = f"{max(recoveries):.2f}" if recoveries else "-"
    praise = "" if mode is Mode.NONE else "ok "
    line = (
        f"{mode.title}: {praise if ok else 'FAILED '}events={verdict.events} lost={verdict.lost} "
        f"duplicated={verdict.duplicated} crashes={len(recoveries)} recovery_s={recovery}"
    )
    if not ok:
        line += f" wrong_counts={verdict.wrong_rows} wrong_alerts={verdict.wrong_alerts}"
    return line, ok
