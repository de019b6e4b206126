"""``penstock sql``: statements of a file, or of a prompt that shows results as they come."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click

from penstock.cli.output import say
from penstock.cli.program_options import program_options, settings_of
from penstock.cli.settings_file import find_settings
from penstock.core.config import Configuration
from penstock.core.errors import ConfigError, PenstockError, coded
from penstock.datastream.job import run_as, running_program

_PROMPT, _MORE = "sql> ", "  -> "
_END = ("quit", "exit")
_WELCOME = "Statements end with ;  -  Ctrl-C ends a query, 'quit' the prompt."


@click.command()
@program_options
@click.option(
    "-f", "--file", "files", type=click.Path(path_type=Path), multiple=True, help="Statements to run."
)
@click.option("-e", "--execute", "statements", multiple=True, help="A statement to run.")
@click.option("-n", "--name", help="Name of the jobs that INSERTs start.")
@click.option("--config", type=click.Path(path_type=Path), help="File of settings, or its directory.")
def sql(
    parallelism: int | None,
    master: str | None,
    settings: tuple[str, ...],
    files: tuple[Path, ...],
    statements: tuple[str, ...],
    name: str | None,
    config: Path | None,
) -> None:
    """Run SQL statements: those of FILEs, then those of -e, or else those that are typed at a prompt.

    Queries show their rows as they come; an INSERT runs until its sources end.  See docs/guides/sql.md.
    """
    texts = [_read(file) for file in files] + list(statements)
    overrides = settings_of(settings, parallelism=parallelism, master=master, name=name)
    Configuration.from_dict(overrides).check()
    found = find_settings(config)
    defaults = {} if found is None else found.settings
    with run_as(replace(running_program(), overrides=overrides, defaults=defaults)):
        _run(texts)


def _run(texts: list[str]) -> None:
    from penstock.sql import Session
    from penstock.sql.running import run_text

    session = Session()
    if not texts:
        prompt(session)
        return
    for text in texts:
        run_text(session, text, say)
    if session.in_set:
        raise ConfigError("a statement set was begun and not ended: END; runs it")


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read statements from {str(file)!r}: {error}") from error


def prompt(session: object) -> None:
    """Statements as they are typed, until the input ends.  What is wrong is said, and it goes on."""
    from penstock.sql import Session
    from penstock.sql.running import complete, run_text

    assert isinstance(session, Session)
    typed = ""
    if sys.stdin.isatty():
        say(_WELCOME)
        _with_history()
    while True:
        try:
            line = input(_MORE if typed else _PROMPT)
        except EOFError:
            break
        except KeyboardInterrupt:
            typed = ""
            say("")
            continue
        if not typed and line.strip().rstrip(";").lower() in _END:
            break
        typed += line + "\n"
        if not complete(typed):
            if not typed.strip():
                typed = ""
            continue
        text, typed = typed, ""
        try:
            run_text(session, text, say)
        except PenstockError as error:
            say(f"Error: {coded(error)}", err=True, colour="red")
        except KeyboardInterrupt:
            say("Ended.")
    if typed.strip():
        raise ConfigError("the last statement does not end with ; and was not run")


def _with_history() -> None:
    """Arrow keys and what was typed before, where Python has that."""
    with suppress(ImportError):
        import readline  # noqa: F401
