"""Follows a page word for word in an empty directory: only what it shows is typed.

A block of Python begins with a comment: ``# FILE`` makes the file, ``# FILE, at its end`` adds to it,
``# FILE, NAME now`` puts the block in place of the function or class, ``# FILE, above NAME`` before it.
Of a console block each ``$`` line is typed, and what is below it must come out, where ``...`` is anything.
``sh`` is for the shell; what stands in ``bash`` is about the reader's machine and not typed.

Programs run without Spark, in this process; what ``penstock run -d`` leaves running has one of its own.
"""

from __future__ import annotations

import ast
import glob
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.testing.local import local_cluster

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
HEAD = re.compile(
    r"# (?P<file>\w+\.py)(?:, (?:(?P<end>at its end)|above (?P<below>\w+)|(?P<name>\w+) now))?\n"
)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
VARYING = re.compile(
    r"\b[0-9a-f]{32}\b|(?<=pid )\d+|savepoint-[0-9a-f]+-[0-9a-f]+|(?<=-)\d{8}-\d{6}-\d+(?=\.log)"
    "|has ended: CANCELED|is cancelled"  # by whom is heard first
)
"""What may be another in each run: a reader types the one that was shown to them."""
HERE, HOME = "/home/ann/shop", "/home/ann/.penstock"
"""Where the pages say that their reader is."""
ROOT = Path(__file__).resolve().parents[2]


class Typist:
    """``read`` gives what this process has printed since it was last asked."""

    def __init__(self, here: Path, read: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._here, self._home = here / "shop", here / "home"
        self._read = read
        self._mine: dict[str, str] = {}
        self._processes: list[int] = []
        self._here.mkdir()
        monkeypatch.chdir(self._here)
        monkeypatch.syspath_prepend(self._here)
        monkeypatch.setattr(sys, "argv", [])
        monkeypatch.setenv("PENSTOCK_HOME", str(self._home))
        monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent / 'without_spark'}{os.pathsep}{ROOT}")

    def follow(self, page: Path) -> int:
        """Do all that the page says; how many outputs were as it shows."""
        shown = 0
        try:
            for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
                if kind == "python":
                    write(block)
                elif kind == "sh":
                    subprocess.run(["sh", "-eu", "-c", block], check=True)
                elif kind == "console":
                    for command, expected in COMMAND.findall(block):
                        self._check(command, expected)
                        shown += 1
        finally:
            for pid in self._processes:
                _end(pid)
        return shown

    def _check(self, command: str, expected: str) -> None:
        found, wanted = self.type_in(command).strip(), expected.strip()
        same, shown = VARYING.sub("*", found), VARYING.sub("*", wanted)
        if "..." in wanted:
            assert re.fullmatch(re.escape(shown).replace(re.escape("..."), ".*"), same, re.DOTALL), same
        else:
            assert same == shown, command
        self._mine |= zip(VARYING.findall(wanted), VARYING.findall(found), strict="..." not in wanted)

    def type_in(self, command: str) -> str:
        """Run a line; what it prints, as the page would show it."""
        on_page = "|".join(map(re.escape, self._mine))
        mine = re.sub(on_page, lambda found: self._mine[found[0]], command) if on_page else command
        program, *arguments = shlex.split(mine)
        does = {"python": self._python, "penstock": self._penstock, "pytest": _pytest}
        does |= {"kill": self._kill, "cat": _cat}
        said = does[program](arguments)
        self._processes += [int(pid) for pid in re.findall(r"runs, pid (\d+)", said)]
        return said.replace(str(self._here), HERE).replace(str(self._home), HOME)

    def _python(self, arguments: list[str]) -> str:
        self._read()
        sys.argv = arguments
        with local_cluster(slots=2), self._modules_of_its_own():
            runpy.run_path(arguments[0], run_name="__main__")
        return self._read()

    def _penstock(self, arguments: list[str]) -> str:
        """What it says on standard error is a problem, or all that it says, or about how a job starts."""
        with local_cluster(slots=2), self._modules_of_its_own():
            said = CliRunner().invoke(cli, arguments)
        beside = said.stderr
        return said.stdout or beside[max(0, beside.find("Error: ")) :]

    @contextmanager
    def _modules_of_its_own(self) -> Iterator[None]:
        """The next command is as good as another process: files may have changed."""
        try:
            yield
        finally:
            for name, module in list(sys.modules.items()):
                if str(getattr(module, "__file__", None)).startswith(str(self._here)):
                    del sys.modules[name]

    def _kill(self, arguments: list[str]) -> str:
        number, pid = arguments
        assert number == "-9" and int(pid) in self._processes, "no process of this page's"
        self._processes.remove(int(pid))
        _end(int(pid))
        return ""


def _end(pid: int) -> None:
    """Kill a child, unless it is over: then the number may be another's by now."""
    with suppress(ChildProcessError):
        if os.waitpid(pid, os.WNOHANG) == (0, 0):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _pytest(arguments: list[str]) -> str:
    """What it says last, without the time that it took."""
    run = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(run, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.sub(r" in [\d.]+s", "", done.stdout.splitlines()[-1])


def _cat(arguments: list[str]) -> str:
    paths = [path for pattern in arguments for path in sorted(glob.glob(pattern))]
    return "".join(Path(path).read_text(encoding="utf-8") for path in paths)


def write(block: str) -> None:
    """Do with a file what the first line says."""
    head = HEAD.match(block)
    assert head, f"no file is named: {block.splitlines()[0]}"
    path, text = Path(head["file"]), block[head.end() :]
    if head["name"] or head["below"]:
        path.write_text(changed(path.read_text(encoding="utf-8"), head, text), encoding="utf-8")
    elif head["end"]:
        path.write_text(path.read_text(encoding="utf-8") + "\n\n" + text, encoding="utf-8")
    else:
        assert not path.exists(), f"{path} is made twice"
        path.write_text(text, encoding="utf-8")


def changed(program: str, head: re.Match[str], text: str) -> str:
    """The program with another definition of a function or class, or something above it."""
    name = head["name"] or head["below"]
    (old,) = [node for node in ast.parse(program).body if getattr(node, "name", None) == name]
    lines = program.splitlines(keepends=True)
    rest = ["\n\n", *lines[old.lineno - 1 :]] if head["below"] else lines[old.end_lineno :]
    return "".join([*lines[: old.lineno - 1], text, *rest])
