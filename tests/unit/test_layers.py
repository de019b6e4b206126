"""The layer law: who may import whom, and who may touch the outside world.

Imports are read from the source with ``ast``; nothing is imported, so a circular mess still gets a
clear answer.  To change the law, change the table here and say why in ``docs/design``.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "penstock"

CONTRACTS = {"connectors.source", "connectors.sink"}
BELOW_USERS = {
    "core",
    "event_time",
    "formats",
    "storage",
    "state",
    "connectors",
    "operators",
    "exchange.partition",
    "graph",
}
BELOW = {"core", "event_time", "formats"}
ENGINE = {*BELOW, "storage", "state", "connectors", "operators", "exchange", "graph", "task"}
ENGINE |= {"snapshot", "coordinator"}
USERS = {"common", "datastream", "metrics"}

# A package's own modules are always allowed; "a.b" allows the module a.b and what is below it.
LAW: dict[str, set[str]] = {
    "core": set(),
    "storage": {"core"},
    "state": {"core", "storage"},
    "event_time": {"core"},
    "formats": {"core"},
    "connectors": {*BELOW, "storage"},
    "exchange": {"core", "event_time"},
    "expressions": {"core"},
    "operators": {*BELOW, "state", "connectors", "expressions"},
    "luggage": {"core", "storage"},
    "graph": {"core", *CONTRACTS, "exchange.partition", "operators.operator", "luggage.wishes"},
    "snapshot": {"core", "storage"},
    "task": {"core", "event_time", "graph", "connectors", "operators", "exchange", "state"},
    "coordinator": {"core", "storage", "common", "graph", "snapshot", *CONTRACTS},
    "batch": {*ENGINE, "common"},
    "rest": {*ENGINE, "common", "state_processor"},
    "columns": {"core", "expressions", "operators.columnar"},
    "dataframe": {
        *{"core", "common", "columns", "connectors.sink", "datastream", "expressions", "operators"},
        "exchange.partition",
    },
    "sql": {*BELOW, "common", "columns", "connectors", "datastream", "dataframe", "expressions"},
    "table": {"core", "common", "connectors", "columns", "datastream", "dataframe", "expressions", "sql"},
    "console": set(),
    "metrics": {"core"},
    "util": {"core"},
    "java_gateway": {"core"},
    "version": set(),
    "common": {"core", "event_time", "connectors"},
    "datastream": {*BELOW_USERS, "common", "metrics", "luggage.wishes"},
    "cep": {*BELOW_USERS, "common", "datastream"},
    "state_processor": {"core", "state", "snapshot", "graph.identity", "operators.window.windows"},
    "spark": {*ENGINE, *USERS, "state_processor", "batch", "luggage", "rest"},
    "testing": {*ENGINE, *USERS, "batch", "luggage"},
    "replay": {*ENGINE, *USERS, "state_processor"},
    "porting": {"core"},
    "cli": {
        *ENGINE,
        *USERS,
        "state_processor",
        "spark",
        "testing",
        "replay",
        "demo",
        "porting",
        "luggage.wishes",
        "rest",
        "sql",
    },
    "demo": {*ENGINE, *USERS, "spark", "testing", "cli", "rest"},
}

STARTS_SPARK = {"spark", "cli", "demo"}
"""Packages that may import pyspark; in ``cli`` and ``demo`` only inside functions."""

SNAPSHOT_STORAGE = {"storage", "reading", "verification", "owners", "store", "repository", "recovery"}
SNAPSHOT_STORAGE |= {"local_backup"}
"""Modules of ``snapshot`` that do I/O; all others decide from values they are given."""

OUTSIDE_WORLD = {"os", "io", "time", "random", "pathlib", "socket", "subprocess", "threading", "tempfile"}
CORE_MAY_USE = {"cloudpickle", "pyarrow", "numpy", "typing_extensions"}
"""The last for type checkers alone: it is not installed with Penstock."""


@dataclass(frozen=True)
class Import:
    """One import statement's target, and where it stands."""

    file: Path
    line: int
    module: str
    in_function: bool

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"


def imports_of(file: Path) -> Iterator[Import]:
    """Everything a file imports, also what stands under ``TYPE_CHECKING`` or inside functions."""

    def visit(node: ast.AST, in_function: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(file, child.lineno, alias.name, in_function)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{file}:{child.lineno}: write imports in full"
                assert child.module is not None
                if child.module.count("."):
                    yield Import(file, child.lineno, child.module, in_function)
                else:
                    for alias in child.names:
                        yield Import(file, child.lineno, f"{child.module}.{alias.name}", in_function)
            inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from visit(child, inside)

    yield from visit(ast.parse(file.read_text(encoding="utf-8")), False)


def package_of(file: Path) -> str:
    """First name below ``penstock``: a package, or a module such as ``demo``."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


FILES = sorted(file for file in PACKAGE.rglob("*.py") if file != PACKAGE / "__init__.py")
IMPORTS = [found for file in FILES for found in imports_of(file)]


def allowed(target: str, permitted: set[str]) -> bool:
    """Whether ``target`` (without the leading ``penstock.``) is one of the permitted, or below one."""
    return any(target == name or target.startswith(name + ".") for name in permitted)


def test_every_package_has_a_law() -> None:
    unknown = {package_of(file) for file in FILES} - set(LAW)
    assert not unknown, f"say in test_layers.py what these may import: {sorted(unknown)}"


@pytest.mark.parametrize("package", sorted(LAW))
def test_imports_go_down(package: str) -> None:
    permitted = LAW[package] | {package, "__version__", "__file__"}
    wrong = [
        str(found)
        for found in IMPORTS
        if package_of(found.file) == package
        and found.module.startswith("penstock.")
        and not allowed(found.module.removeprefix("penstock."), permitted)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_law_has_no_circles() -> None:
    """Among whole packages, an arrow one way means none the other way (the two front ends aside)."""
    arrows = {(package, other.split(".")[0]) for package, permitted in LAW.items() for other in permitted}
    back = {(a, b) for a, b in arrows if a in LAW[b] and {a, b} != {"cli", "demo"}}
    assert len(arrows) > 100 and not back, back


def test_task_and_coordinator_never_meet() -> None:
    assert not allowed("coordinator", LAW["task"])
    assert not allowed("task", LAW["coordinator"])


def test_state_backends_know_nothing_of_each_other() -> None:
    """Nor does the rest of ``state`` know them, but for the registry that names them."""
    backends = {file.parent.name for file in (PACKAGE / "state").glob("*/backend.py")}
    assert backends == {"heap", "rocks"}
    wrong = [
        str(found)
        for found in IMPORTS
        for backend in backends
        if package_of(found.file) == "state"
        and f"{found.module}.".startswith(f"penstock.state.{backend}.")
        and found.file.parent.name != backend
        and found.file != PACKAGE / "state" / "registry.py"
    ]
    assert not wrong, "\n".join(wrong)


def test_only_spark_imports_pyspark() -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if found.module.split(".")[0] in ("pyspark", "py4j")
        and (
            package_of(found.file) not in STARTS_SPARK
            or (package_of(found.file) != "spark" and not found.in_function)
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_core_needs_only_arrow_and_numpy() -> None:
    known = set(sys.stdlib_module_names) | CORE_MAY_USE | {"penstock"}
    wrong = [
        str(found)
        for found in IMPORTS
        if package_of(found.file) == "core" and found.module.split(".")[0] not in known
    ]
    assert not wrong, "\n".join(wrong)


def test_the_snapshot_protocol_is_pure() -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if package_of(found.file) == "snapshot"
        and found.file.stem not in SNAPSHOT_STORAGE
        and found.module.split(".")[0] in OUTSIDE_WORLD
    ]
    assert not wrong, "\n".join(wrong)


def test_pure_snapshot_modules_do_not_lean_on_storage() -> None:
    """Else purity would be a matter of words."""
    storage = {f"penstock.snapshot.{name}" for name in SNAPSHOT_STORAGE}
    wrong = [
        str(found)
        for found in IMPORTS
        if package_of(found.file) == "snapshot"
        and found.file.stem not in SNAPSHOT_STORAGE
        and (found.module in storage or allowed(found.module, {"penstock.storage"}))
    ]
    assert not wrong, "\n".join(wrong)


DECIDING = {
    "task": {"task", "slot", "snapshot", "environment", "build"},
    "exchange": {"gate", "barrier_alignment", "channel", "outputs"},
    "coordinator": {"coordinator", "events"},
}
"""Modules that decide and need not say so. Those that say that they are pure are found by that."""

CLAIM = re.compile(r"\b(Pure(?! but)|[Aa]ll is pure|Sans-IO)\b")
HANDS = {"open", "print", "input", "exec", "eval"}
MOMENTS = {"now", "today", "utcnow"}


def says_it_is_pure(file: Path) -> bool:
    """Whether the docstring of the module, or of a class in it, claims it."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    documented = [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]
    return any(CLAIM.search(ast.get_docstring(node) or "") for node in documented)


CLAIMING = {file for file in FILES if says_it_is_pure(file)}
PURE = CLAIMING | {PACKAGE / package / f"{name}.py" for package, names in DECIDING.items() for name in names}


def test_who_says_it_is_pure_is_found() -> None:
    names = {str(file.relative_to(PACKAGE)) for file in PURE}
    some = {"savepoint_requests", "worker_group", "manifests", "watermark_alignment"}
    some |= {"checkpoint_coordinator", "schedule", "commits", "split_assigner"}
    assert names >= {f"coordinator/{name}.py" for name in some}
    assert "coordinator/restore_source.py" not in names, "it reads, and says so"
    assert all(file.is_file() for file in PURE)


def test_the_deciding_modules_do_no_io() -> None:
    """Sans-IO: these get clock, storage and network handed in. Randomness is handed in as an object."""
    forbidden = OUTSIDE_WORLD - {"random"}
    wrong = [
        str(found) for found in IMPORTS if found.file in PURE and found.module.split(".")[0] in forbidden
    ]
    assert not wrong, "\n".join(wrong)


def test_pure_modules_do_not_lean_on_those_with_io() -> None:
    """Else purity would be a matter of words. The clock's type may be named: it is handed in."""
    outside = OUTSIDE_WORLD - {"random", "threading"}
    touching = {found.file for found in IMPORTS if found.module.split(".")[0] in outside}
    allowed_ones = {PACKAGE / "core" / "clock.py"}
    names = {module_name(file): file for file in touching - allowed_ones}
    wrong = [str(found) for found in IMPORTS if found.file in CLAIMING and found.module in names]
    assert not wrong, "\n".join(wrong)


def module_name(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts)


def test_the_deciding_modules_open_and_ask_nothing() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno} calls {name}"
        for file in sorted(PURE)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and (name := reaches_out(node.func))
    ]
    assert not wrong, "\n".join(wrong)


def reaches_out(function: ast.expr) -> str | None:
    """The name of what is called, if it is a built-in that does I/O or asks a calendar for the time."""
    if isinstance(function, ast.Name):
        return function.id if function.id in HANDS else None
    if isinstance(function, ast.Attribute) and function.attr in MOMENTS:
        whose = ast.unparse(function.value)
        return f"{whose}.{function.attr}" if whose.split(".")[-1] in ("datetime", "date") else None
    return None


def test_only_the_clock_knows_the_time() -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if found.module.split(".")[0] == "time" and found.file != PACKAGE / "core" / "clock.py"
    ]
    wrong += [
        f"{file.relative_to(ROOT)}:{node.lineno} calls {name}"
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (name := reaches_out(node.func))
    ]
    assert not wrong, "\n".join(wrong)
