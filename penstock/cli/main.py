"""``penstock``: the door to all commands.

A command's module is imported when the command is used: ``penstock --help`` must not wait for Arrow
or Spark.  Every error made on purpose ends here, as one paragraph on standard error.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from penstock import __version__
from penstock.core.discreet import discreet_usage, shown
from penstock.core.errors import PenstockError, SparkLostError, coded, to_read_on
from penstock.core.interrupts import SAID

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("penstock.cli.run:run", "Run a program."),
    "sql": ("penstock.cli.sql:sql", "Run SQL statements, from a file or at a prompt."),
    "port": ("penstock.cli.port:port", "Rewrite the imports of PyFlink programs."),
    "list": ("penstock.cli.jobs:list_jobs", "List the jobs that run on this machine."),
    "cancel": ("penstock.cli.jobs:cancel", "Cancel a running job."),
    "events": ("penstock.cli.events:events", "Show what happened to a job."),
    "ui": ("penstock.cli.ui:ui", "Show all jobs on one page, or open that of one."),
    "savepoint": ("penstock.cli.jobs:savepoint", "Take or delete a savepoint."),
    "stop": ("penstock.cli.jobs:stop", "Stop a job with a savepoint."),
    "rescale": ("penstock.cli.rescale:rescale", "Go on at another parallelism."),
    "fork": ("penstock.cli.fork:fork", "Try changed code from a savepoint, without side effects."),
    "backfill": ("penstock.cli.backfill:backfill", "Run a program over its history first, then live."),
    "replay": ("penstock.cli.replay:replay", "Run a program over a piece of the past."),
    "debug": ("penstock.cli.debug:debug", "Step through what a program does to one key."),
    "checkpoint": ("penstock.cli.checkpoint:checkpoint", "Look at checkpoints and savepoints."),
    "state": ("penstock.cli.checkpoint:state", "Look into the state of a snapshot."),
    "topic": ("penstock.cli.topic:topic", "Work with topics of the embedded log."),
    "new": ("penstock.cli.new:new", "Make a project to begin with: a job and its tests."),
    "explain": ("penstock.cli.explain:explain", "Say what the code of an error means, and the way out."),
    "doctor": ("penstock.cli.doctor:doctor", "Check that this machine can run jobs."),
    "demo": ("penstock.cli.demo:demo", "Watch a job survive crashes, exactly once."),
}
"""Name to (module and object, what it does)."""

INTERRUPTED = 130


SPARK_LOST = 75
"""Exit status if Spark is gone: a temporary failure, in the words of ``sysexits.h``."""


def exit_status(error: BaseException | None) -> int:
    """What a supervisor is told: 1, or that starting the program again is all it takes."""
    while error is not None:
        if isinstance(error, SparkLostError):
            return SPARK_LOST
        error = getattr(error, "cause", None) or error.__cause__
    return 1


@contextmanager
def _discreetly() -> Iterator[None]:
    """Errors of the command line quote what was typed: not the secrets in it."""
    try:
        yield
    except click.ClickException as error:
        setattr(error, "message", shown(discreet_usage(error.message)))  # noqa: B010 - final, to type checkers
        raise


class LazyGroup(click.Group):
    """A group whose commands are imported one by one, when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _discreetly():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _discreetly():
                return super().invoke(ctx)
        except PenstockError as error:
            if ctx.params.get("debug"):
                raise
            click.secho(shown(f"Error: {coded(error)}"), fg="red", err=True)
            click.echo(shown(to_read_on(error.code)), err=True)
            ctx.exit(exit_status(error))
        except KeyboardInterrupt as error:
            if error.args != (SAID,):
                click.secho("Interrupted.", fg="red", err=True)
            ctx.exit(INTERRUPTED)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="penstock")
@click.option("--debug", is_flag=True, help="Show full tracebacks.")
def cli(debug: bool) -> None:
    """Stateful stream processing in Python, on the Spark you have."""


def main() -> None:
    """Entry point of the ``penstock`` script."""
    sys.exit(cli.main(prog_name="penstock"))


if __name__ == "__main__":
    main()
