"""Files and functions stay small enough to read.

A file over 400 lines, of the package or of what belongs to it, or a function of the package over 50 needs a
reason in its source: a comment ``# long because ...`` at the top of the file (before the first statement
after the docstring), or right above the ``def`` (or its decorators).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "penstock"
BESIDE = ("tests", "benchmarks", "scripts", "examples")
FILE_LINES = 400
FUNCTION_LINES = 50
REASON = "# long because "

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources(*places: Path) -> Iterator[tuple[Path, list[str]]]:
    for file in sorted(file for place in places for file in place.rglob("*.py")):
        yield file, file.read_text(encoding="utf-8").splitlines()


def first_line(function: Function) -> int:
    """Line of the first decorator, or of the ``def``."""
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])


def excused(lines: list[str], function: Function) -> bool:
    """Whether the line above says why."""
    above = lines[first_line(function) - 2] if first_line(function) > 1 else ""
    return above.strip().startswith(REASON)


def test_files_are_short() -> None:
    long = []
    for file, lines in sources(PACKAGE, *(ROOT / name for name in BESIDE)):
        if len(lines) > FILE_LINES:
            body = ast.parse("\n".join(lines)).body
            start = body[1].lineno if len(body) > 1 else len(lines)
            if not any(line.startswith(REASON) for line in lines[: start - 1]):
                long.append(f"{file.relative_to(ROOT)}: {len(lines)} lines")
    assert not long, "\n".join(long)


def test_functions_are_short() -> None:
    long = []
    for file, lines in sources(PACKAGE):
        for node in ast.walk(ast.parse("\n".join(lines))):
            if isinstance(node, Function) and node.end_lineno is not None:
                length = node.end_lineno - node.lineno + 1
                if length > FUNCTION_LINES and not excused(lines, node):
                    long.append(f"{file.relative_to(ROOT)}:{node.lineno} {node.name}: {length} lines")
    assert not long, "\n".join(long)


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(file.relative_to(ROOT))
        for file, lines in sources(PACKAGE)
        if not ast.get_docstring(ast.parse("\n".join(lines)))
    ]
    assert not silent, "\n".join(silent)
