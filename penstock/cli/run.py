"""``penstock run``: a program as ``python`` would run it, with settings from outside that win."""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import click

import penstock
from penstock.cli.detached import leave_running
from penstock.cli.output import progress_line, say
from penstock.cli.program_options import (
    check_program,
    non_restored_option,
    program_options,
    python_options,
    python_settings,
    settings_of,
)
from penstock.cli.settings_file import find_settings
from penstock.coordinator.resuming import WAIT
from penstock.coordinator.running_job import RunningJob
from penstock.core.config import Configuration
from penstock.core.discreet import log_of
from penstock.core.error_codes import Code
from penstock.core.errors import GraphError, PenstockError
from penstock.core.interrupts import SAID, TERMINATED
from penstock.core.job import JobStatus
from penstock.datastream.job import run_as, running_program
from penstock.graph.nodes import StartedBy
from penstock.luggage.wishes import Wishes

_log = log_of(__name__)
_OWN = str(Path(penstock.__file__).parent) + os.sep


class ProgramError(PenstockError):
    """The program raised; the message is its own traceback."""

    code = Code.PROGRAM


@click.command(context_settings={"ignore_unknown_options": True})
@program_options
@click.option("-s", "--from-snapshot", metavar="PATH", help="Checkpoint or savepoint to start from.")
@non_restored_option
@click.option("--claim", is_flag=True, help="Delete the snapshot once the job has its own checkpoints.")
@click.option("--name", help="Name of the job.")
@click.option("--config", type=click.Path(path_type=Path), help="File of settings, or its directory.")
@python_options
@click.option("-d", "--detached", is_flag=True, help="Return when the job runs, and leave it running.")
@click.option("--log", type=click.Path(path_type=Path), help="With -d: where its output is appended.")
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(
    ctx: click.Context,
    parallelism: int | None,
    master: str | None,
    settings: tuple[str, ...],
    from_snapshot: str | None,
    allow_non_restored_state: bool,
    claim: bool,
    name: str | None,
    config: Path | None,
    detached: bool,
    log: Path | None,
    script: Path,
    args: tuple[str, ...],
) -> None:
    """Run SCRIPT with ARGS, as python would.

    Options that penstock does not know are passed on; so is everything behind "--".

    Settings are those of the command line, then the program's own, then those of a file: --config, or
    penstock.yaml here or in $PENSTOCK_HOME, or config.yaml in $FLINK_CONF_DIR.
    """
    check_program(script)
    if log is not None and not detached:
        raise click.UsageError("--log is for -d; without it redirect the output: > FILE 2>&1")
    settings = ctx.params["settings"] = (*settings, *python_settings(ctx))
    overrides = settings_of(
        settings,
        parallelism=parallelism,
        master=master,
        snapshot=from_snapshot,
        allow_non_restored_state=allow_non_restored_state,
        claim=claim,
        name=name,
    )
    Configuration.from_dict(overrides).check()
    debug = bool(ctx.find_root().params.get("debug"))
    if detached:
        find_settings(config, script)  # what is wrong in it is said here, not in a log
        leave_running(ctx, log, debug)
        return
    again = {"parallelism": parallelism, "master": master, "name": name, "settings": list(settings)}
    run_program(script, args, overrides, _command(script, args, config) | again, debug, config)


def _command(script: Path, args: tuple[str, ...], config: Path | None) -> dict[str, Any]:
    """What a program was started as, for ``penstock rescale`` to start it again."""
    return {
        "directory": str(Path.cwd()),
        "script": str(script),
        "args": list(args),
        "config": None if config is None else str(config.absolute()),
    }


def run_program(
    script: Path,
    args: tuple[str, ...],
    overrides: dict[str, str],
    command: dict[str, Any] | None,
    debug: bool,
    config: Path | None = None,
) -> list[RunningJob]:
    """Run a program with progress; its jobs, now over. ``command`` is how to start it again, if known."""
    jobs: list[RunningJob] = []
    with (
        as_program(script, args, overrides, config),
        run_as(replace(running_program(), started_by=StartedBy(command, jobs.append))),
        progress_line(jobs),
        _heard(),
    ):
        try:
            execute(script, debug)
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(SAID) if _let_go(jobs) else error from None
        except BaseException:  # also that the program, or SIGTERM, ended it
            _let_go(jobs)
            raise
        _check_end(script, jobs)
    return jobs


def _let_go(jobs: list[RunningJob]) -> list[RunningJob]:
    """End the jobs that the program leaves behind as those of ``env.execute()`` end: which these were."""
    left = [job for job in jobs if not job.result().done()]
    for job in left:
        job.interrupt().result()
        _log.warning("%s", job.what_is_kept())
    return left


@contextmanager
def _heard() -> Iterator[None]:
    """SIGTERM ends the program by an exception, as Ctrl-C does, unless somebody has seen to it already."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(TERMINATED)

    before = signal.getsignal(signal.SIGTERM)
    if before is not signal.SIG_DFL or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def as_program(
    script: Path, args: tuple[str, ...], overrides: dict[str, str], config: Path | None = None
) -> Iterator[None]:
    """The process as ``python script args`` would see it, with the settings of a file if there is one."""
    found = find_settings(config, script)
    if found is not None:
        say(found.said(), err=True)
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *args]
    sys.path[:0] = [str(script.resolve().parent), *Wishes.of(Configuration.from_dict(overrides)).own_path()]
    try:
        defaults = {} if found is None else found.settings
        with run_as(replace(running_program(), overrides=overrides, defaults=defaults)):
            yield
    finally:
        sys.argv = argv
        sys.path[:] = path


def execute(script: Path, debug: bool) -> None:
    """Run the program in this process; what it raises comes out as a :class:`ProgramError`."""
    try:
        runpy.run_path(str(script), run_name="__main__")
    except PenstockError as error:
        if debug:
            raise
        line = _line_in(script, error.__traceback__)
        said = f"{error}\n({script}, line {line})" if line else str(error)
        raise ProgramError(said, code=error.code) from error
    except Exception as error:
        if debug:
            raise
        raise ProgramError(own_traceback(error)) from error


def _line_in(script: Path, trace: TracebackType | None) -> int | None:
    lines = [frame.lineno for frame in traceback.extract_tb(trace) if frame.filename == str(script)]
    return lines[-1] if lines else None


def own_traceback(error: BaseException) -> str:
    """A traceback without the frames of the engine and of what started the program."""
    shown = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = shown
    while part is not None:
        frames = [frame for frame in part.stack if not _is_engine(frame.filename)]
        part.stack = traceback.StackSummary.from_list(frames)
        part = part.__cause__ or part.__context__
    return "the program failed.\n" + "".join(shown.format()).rstrip()


def _is_engine(filename: str) -> bool:
    return filename.startswith((_OWN, "<frozen runpy>")) or filename == runpy.__file__


def _check_end(script: Path, jobs: list[RunningJob]) -> None:
    if not jobs:
        raise GraphError(
            f"{script}: the script ended without calling env.execute(); a program only describes its job "
            "until execute(), execute_async() or execute_and_collect() is called",
            code=Code.NOT_EXECUTED,
        )
    left = [job for job in _let_go(jobs) if job.status() is not JobStatus.FINISHED]
    if left:
        names = ", ".join(job.job.plan.job_name for job in left)
        raise GraphError(
            f"{script}: the script ended while its job was running ({names}), so it was ended, too; {WAIT}"
        )
