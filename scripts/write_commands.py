"""Write ``docs/commands.md``: every command of ``penstock``, with what it says of itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from penstock.cli.main import cli

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
TOP = """\
# Commands

After this page you know every command of `penstock`, and every option.

`penstock COMMAND --help` says the same in a terminal. `penstock --debug COMMAND` shows full tracebacks. A
program's own options stand behind the program. Exit statuses:
[how a program ends](guides/begin-and-end.md#exit-status); errors: [by their codes](errors/index.md).
This page is made by `python scripts/write_commands.py`.
"""


def page() -> str:
    """The whole page."""
    parts = [TOP]
    for name, command in commands(cli, click.Context(cli, info_name="penstock")):
        parts.append(section(name, command))
    return "\n".join(parts)


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """All commands, those of groups behind their group."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = click.Context(command, info_name=name, parent=context)
        yield inner.command_path, command
        if isinstance(command, click.Group):
            yield from commands(command, inner)


def section(path: str, command: click.Command) -> str:
    """A command: how it is called, what it does, what can be said to it."""
    shown = [it for it in command.params if not getattr(it, "hidden", False)]
    arguments = [called(it) for it in shown if isinstance(it, click.Argument)]
    options = [it for it in shown if isinstance(it, click.Option)]
    if isinstance(command, click.Group):
        arguments.append("COMMAND")
    usage = " ".join([path, *(["[OPTIONS]"] if options else []), *arguments])
    parts = [f"## {path}\n", f"```text\n{usage}\n```\n", told(command.help or "")]
    if options:
        rows = "".join(f"| {spelled(it)} | {explained(it)} |\n" for it in options)
        parts.append(f"| option | |\n| --- | --- |\n{rows}")
    return "\n".join(parts)


def called(argument: click.Argument) -> str:
    """An argument as a usage line has it."""
    name = argument.metavar or (argument.name or "").upper()
    name += "..." if argument.nargs == -1 and not name.endswith("...") else ""
    return name if argument.required else f"[{name}]"


def told(text: str) -> str:
    """A docstring as Markdown; what click is told not to wrap is kept as it is."""
    parts = []
    for part in inspect.cleandoc(text).split("\n\n"):
        if part.startswith("\b\n"):
            parts.append(f"```text\n{part[2:]}\n```\n")
        else:
            parts.append(re.sub(r"``([^`]+)``", r"`\1`", part) + "\n")
    return "\n".join(parts)


def spelled(option: click.Option) -> str:
    """The names of an option, and what stands behind it."""
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len))
    if option.is_flag:
        return names
    kind = option.type
    word = option.metavar or re.sub(r" RANGE$", "", kind.name.upper())
    if isinstance(kind, click.Choice):
        word = "|".join(kind.choices)
    return f"{names} {word.replace('|', ' or ')}"


def explained(option: click.Option) -> str:
    """What an option is for, and what holds without it."""
    said = [option.help or ""]
    if option.show_default and not option.is_flag:
        said.append(f"Default: {option.default}.")
    if option.required:
        said.append("Must be given.")
    return " ".join(said).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
