"""Tests that cannot fail show nothing: each one asserts, and asserts something that may be wrong.

Read from the source with ``ast``.  What a test calls counts if it stands in ``ASSERTING`` (helpers that
raise when something is not as it should be, and calls whose silence is the very thing that is tested), or is
a function of the same file that asserts.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Set
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

ASSERTING = {
    *("raises", "warns", "fail"),
    # of our own test kits
    *("verify", "simulate", "check", "gives", "run", "must_be_found", "refused", "until"),
    *("check_both", "check_disturbed", "compare_with_model", "finish", "killed_at", "replays"),
    *("run_to_end", "try_to_read", "well_formed", "bounded", "nothing_left", "agrees"),
}


def of_tests(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Functions that pytest takes for tests: of the module, and of its classes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from of_tests(node)


def own(node: ast.AST, full: set[str], in_loop: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """What runs when the function runs, and whether a loop may run it not even once."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        yield child, in_loop
        yield from own(child, full, in_loop or may_not_run(child, full))


def may_not_run(node: ast.AST, full: set[str]) -> bool:
    """Whether it is a loop that is not seen to have a first round."""
    return isinstance(node, ast.While) or isinstance(node, ast.For) and not holds_something(node.iter, full)


def written_out(test: ast.FunctionDef) -> set[str]:
    """Variables that are given something at the place where they are made."""
    return {
        node.targets[0].id
        for node in ast.walk(test)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and holds_something(node.value, set())
    }


def holds_something(values: ast.expr, full: set[str]) -> bool:
    """Whether ``values`` is written out, a range, or a constant of the module (or a part of one)."""
    if isinstance(values, ast.Tuple | ast.List | ast.Set):
        return bool(values.elts)
    if isinstance(values, ast.Constant):
        return bool(values.value)
    if isinstance(values, ast.Dict):
        return bool(values.keys)
    if isinstance(values, ast.Name):
        return values.id.isupper() or values.id in full
    if isinstance(values, ast.Subscript):
        return holds_something(values.value, full)
    if isinstance(values, ast.Call) and isinstance(values.func, ast.Attribute):
        return values.func.attr in ("items", "values", "keys") and holds_something(values.func.value, full)
    if isinstance(values, ast.Call) and isinstance(values.func, ast.Name):
        if values.func.id in ("enumerate", "zip", "sorted"):
            return holds_something(values.args[0], full)
        return values.func.id == "range"
    return False


def called(node: ast.AST) -> str:
    """The name of what is called; empty if it is no call."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def asserts(node: ast.AST, helpers: Set[str] = frozenset()) -> bool:
    return isinstance(node, ast.Assert) or called(node) in ASSERTING | helpers


def helpers_of(tree: ast.Module) -> set[str]:
    """Functions of the module that assert in every call, and are no tests themselves."""
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(asserts(inner) and not in_loop for inner, in_loop in own(node, written_out(node)))
    }


def is_constant(test: ast.expr) -> bool:
    return not any(isinstance(node, ast.Name | ast.Call) for node in ast.walk(test)) or (
        isinstance(test, ast.Tuple)
    )


def faults_of(test: ast.FunctionDef, helpers: Set[str] = frozenset()) -> Iterator[str]:
    """Why this test could not fail."""
    given = any("given" in ast.unparse(decorator) for decorator in test.decorator_list)
    found = [(node, in_loop) for node, in_loop in own(test, written_out(test)) if asserts(node, helpers)]
    if not found:
        yield "asserts nothing"
    elif not given and all(in_loop for _, in_loop in found):
        yield "asserts only in a loop, over what may be empty: assert that it is not"
    for node, _ in found:
        if isinstance(node, ast.Assert) and is_constant(node.test):
            yield f"asserts the constant {ast.unparse(node.test)}"
    for node in ast.walk(test):
        if isinstance(node, ast.ExceptHandler) and catches_assertions(node):
            yield "catches what its assertions raise"


def catches_assertions(handler: ast.ExceptHandler) -> bool:
    """Whether a failed assertion ends in a handler that only passes."""
    kinds = "" if handler.type is None else ast.unparse(handler.type)
    broad = handler.type is None or any(
        name in kinds.replace("(", " ").replace(")", " ").replace(",", " ").split()
        for name in ("Exception", "BaseException", "AssertionError")
    )
    return broad and all(isinstance(line, ast.Pass | ast.Continue) for line in handler.body)


FILES = sorted(TESTS.rglob("test_*.py"))


def test_files_have_names_of_their_own() -> None:
    """pytest imports them by bare names: the second of two is refused where both run together."""
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_no_test_is_skipped_for_what_is_always_there() -> None:
    """Penstock, and the packages that it needs: skipped without them, tests are silent when they are lost."""
    project = tomllib.loads((TESTS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.match(r"[\w-]+", text)[0] for text in project["dependencies"]}
    assert {"pyspark", "rocksdict"} <= needed
    skipped = re.compile(r'importorskip\(\s*"(\w+)')
    wrong = [
        f"{file.relative_to(TESTS)}: {name}"
        for file in sorted(TESTS.rglob("*.py"))
        for name in skipped.findall(file.read_text(encoding="utf-8"))
        if name in {"penstock", *needed}
    ]
    assert not wrong, "\n".join(wrong)


def test_tests_can_fail() -> None:
    wrong, seen = [], 0
    for file in FILES:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        helpers = helpers_of(tree)
        for test in of_tests(tree):
            seen += 1
            place = f"{file.relative_to(TESTS)}:{test.lineno} {test.name}"
            wrong += [f"{place} {fault}" for fault in faults_of(test, helpers)]
    assert seen > 2000, "the scan finds the tests"
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("print(1)", "asserts nothing"),
        ("def inner():\n  assert x\ninner", "asserts nothing"),
        ("for x in found():\n  assert x", "asserts only in a loop"),
        ("while going():\n  assert x", "asserts only in a loop"),
        ("assert True", "the constant True"),
        ("assert (x, 'message')", "the constant"),
        ("try:\n  assert x\nexcept Exception:\n  pass", "catches what"),
        ("assert x == 1", None),
        ("for x in (1, 2):\n  assert y", None),
        ("for x in found():\n  assert x\nassert seen", None),
        ("with pytest.raises(E):\n  f()", None),
        ("verify(x)", None),
    ],
)
def test_the_scan_sees_what_it_looks_for(body: str, fault: str | None) -> None:
    lines = "\n".join(f"  {line}" for line in body.splitlines())
    (test,) = of_tests(ast.parse(f"def test_it():\n{lines}"))
    faults = list(faults_of(test))
    assert (faults == []) if fault is None else any(fault in each for each in faults), faults
