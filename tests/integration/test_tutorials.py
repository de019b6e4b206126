"""The tutorials, followed word for word in an empty directory: only what a page shows is typed.

A block of Python begins with a comment: ``# FILE`` makes the file, ``# FILE, at its end`` adds to it,
``# FILE, NAME now`` puts the block in place of the function or class.  Of a console block each ``$`` line is
typed, and what is below it must come out.  Programs run without Spark, in this process.
"""

from __future__ import annotations

import ast
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.testing.local import local_cluster

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
FOLLOWED = ["hourly-counts.md", "from-pyflink.md", "from-structured-streaming.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
HEAD = re.compile(r"# (?P<file>\w+\.py)(?:, (?:(?P<end>at its end)|(?P<name>\w+) now))?\n")


def write(block: str) -> None:
    """Do with a file what the first line says."""
    head = HEAD.match(block)
    assert head, f"no file is named: {block.splitlines()[0]}"
    path, text = Path(head["file"]), block[head.end() :]
    if head["name"]:
        path.write_text(replaced(path.read_text(encoding="utf-8"), head["name"], text), encoding="utf-8")
    elif head["end"]:
        path.write_text(path.read_text(encoding="utf-8") + "\n\n" + text, encoding="utf-8")
    else:
        assert not path.exists(), f"{path} is made twice"
        path.write_text(text, encoding="utf-8")


def replaced(program: str, name: str, text: str) -> str:
    (old,) = [node for node in ast.parse(program).body if getattr(node, "name", None) == name]
    lines = program.splitlines(keepends=True)
    return "".join([*lines[: old.lineno - 1], text, *lines[old.end_lineno :]])


def type_in(command: str, read: Callable[[], str]) -> str:
    """Run a line; what it prints, without the times that pytest tells."""
    program, *arguments = shlex.split(command)
    if program == "python":
        with local_cluster(slots=2):
            runpy.run_path(arguments[0], run_name="__main__")
        return read()
    if program == "penstock":
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 0, result.output
        return result.output
    assert program == "pytest"
    run = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.sub(r" in [\d.]+s", "", done.stdout.splitlines()[-1])


@pytest.mark.parametrize("page", FOLLOWED)
def test_a_tutorial(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = 0
    for kind, block in BLOCK.findall((TUTORIALS / page).read_text(encoding="utf-8")):
        if kind == "python":
            write(block)
        elif kind == "sh":
            subprocess.run(["sh", "-eu", "-c", block], check=True)
        elif kind == "console":
            for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
                capsys.readouterr()
                assert type_in(command, lambda: capsys.readouterr().out).strip() == expected.strip()
                shown += 1
    assert shown


def test_every_tutorial_is_followed() -> None:
    pages = {path.name for path in TUTORIALS.glob("*.md") if "```console" in path.read_text(encoding="utf-8")}
    assert pages == set(FOLLOWED)
