"""Commands, settings and SQL on the pages are what there is: a reader can type them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from penstock.cli.main import cli
from penstock.cli.settings_file import read_settings
from penstock.sql import Session
from scripts import write_commands
from tests.unit.test_docs import DOCS, PAGES, ROOT

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = {"", "sh", "bash", "console"}
INLINE = re.compile(r"(?<!`)`((?:penstock|make) [^`\n]+)`")
NOT_OURS = {"rest.md"}
"""Its YAML is Prometheus's."""
MARKS = {"format.md"}
"""What it quotes stands in files."""
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def typed(page: Path) -> Iterator[tuple[str, bool]]:
    """Lines for a shell, and whether all of them is there."""
    text = page.read_text(encoding="utf-8")
    for kind, block in FENCE.findall(text):
        if kind in SHELL:
            for line in block.replace("\\\n", " ").splitlines():
                yield line.removeprefix("$ "), True
    for command in INLINE.findall(FENCE.sub("", text)) if page.name not in MARKS else ():
        yield command, False


def commands_of(page: Path) -> Iterator[tuple[list[str], bool]]:
    """What calls ``penstock`` or ``make``, by itself or behind variables, ``&&`` and spark-submit."""
    for line, whole in typed(page):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # output, with an apostrophe in it
            continue
        starts = [i for i, word in enumerate(words) if word in ("penstock", "make")]
        for start in starts:
            before = words[start - 1] if start else "&&"
            if before in ("&&", "||", ";") or re.fullmatch(r"[A-Z_]+=.*", before):
                rest = words[start:]
                end = next((i for i, word in enumerate(rest) if word in ("&&", "||", "|", ";", "&")), None)
                yield rest[:end], whole


def complaint(words: list[str], whole: bool) -> str | None:
    """What the command line would say of it before it does anything; ``None`` if nothing."""
    if words[0] == "make":
        known = all(word in TARGETS or "=" in word for word in words[1:])
        return None if known else f"no such target: {words}"
    context = click.Context(cli, info_name="penstock")
    command: click.Command = cli
    rest = words[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        if rest[0].isupper():
            return None  # COMMAND, any of them
        try:
            name, inner, rest = command.resolve_command(context, rest)
        except click.UsageError as error:
            return error.format_message()
        assert inner is not None
        context = click.Context(inner, info_name=name, parent=context)
        command = inner
    return complaint_of(command, context, rest, whole)


def complaint_of(command: click.Command, context: click.Context, rest: list[str], whole: bool) -> str | None:
    """What is wrong with options and arguments; a program's own options stand behind it."""
    context.ignore_unknown_options = command.context_settings.get("ignore_unknown_options", False)
    parser = command.make_parser(context)
    try:
        values, _, _ = parser.parse_args(list(rest))
    except click.BadOptionUsage as error:
        return error.format_message() if whole else None
    except click.UsageError as error:
        return error.format_message()
    given = {name for name, value in values.items() if isinstance(value, str | tuple | list) and value}
    needed = [it.name for it in command.params if it.required]
    missing = [name for name in needed if name not in given]
    taken = [values[name] for name in needed if name in given and str(values[name]).startswith("-")]
    if taken:
        return f"no such option: {taken}"
    return f"{missing} missing" if whole and missing else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_on_a_page_can_be_typed(page: Path) -> None:
    wrong = {" ".join(words): complaint(words, whole) for words, whole in commands_of(page)}
    assert not {line: said for line, said in wrong.items() if said}


def test_commands_are_found_and_wrong_ones_told(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "See `penstock lst`, `penstock run --nothing` and `make tea`; `penstock run -p`.\n\n"
        "```sh\nA=b penstock run -p 4 job.py --own   # yes\nmake dist && penstock cancel\n"
        "penstock fork snapshot \\\n    job.py --untill 5\n```\n\n"
        "```console\n$ penstock checkpoint job\njob's\n```\n"
    )
    found = [(words[-1], complaint(words, whole)) for words, whole in commands_of(page)]
    told = {last: said for last, said in found if said}
    assert [last for last, said in found if not said] == ["--own", "dist", "5", "job", "-p"]
    assert set(told) == {"cancel", "lst", "--nothing", "tea"} and "missing" in told["cancel"]


def test_the_page_of_commands_is_current() -> None:
    text = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert text == write_commands.page(), "run: python scripts/write_commands.py"


def test_every_option_says_what_it_is_for() -> None:
    context = click.Context(cli, info_name="penstock")
    silent = [
        f"{path} {option.opts[0]}"
        for path, command in write_commands.commands(cli, context)
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden and not option.help
    ]
    assert not silent


def blocks(kind: str) -> list[tuple[str, str]]:
    return [
        (page.name, block)
        for page in PAGES
        for found, block in FENCE.findall(page.read_text(encoding="utf-8"))
        if found == kind and page.name not in NOT_OURS
    ]


@pytest.mark.parametrize(("page", "block"), blocks("yaml"))
def test_settings_in_yaml_are_read(page: str, block: str, tmp_path: Path) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text(block, encoding="utf-8")
    read = read_settings(path)
    assert read.settings and not read.unused, page


@pytest.mark.parametrize(("page", "block"), blocks("sql"))
def test_sql_is_taken(page: str, block: str) -> None:
    session = Session()
    done = [session.perform(node, text) for node, text in session.statements(block)]
    assert done and None not in done, page
