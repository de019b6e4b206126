"""Record which names the modules of PyFlink have, for ``tests/unit/compat/test_compat_namespaces.py``.

    python scripts/read_pyflink_names.py WHEEL...

Give the newest wheel first; of older ones only those names are kept that no newer one has in the same place.
The modules are parsed and never imported.  Left out are names that PyFlink itself has from other packages
(``typing``, ``py4j``), tables, examples and tests.
"""

from __future__ import annotations

import ast
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "tests" / "unit" / "compat" / "namespaces.json"
PACKAGE = "pyflink"
LEFT_OUT = {"table", "tests", "examples", "dataset", "ml"}
RUNTIME = "fn_execution"
"""Left out of older wheels."""


def main(wheels: list[str]) -> None:
    """Write the file."""
    known: dict[str, set[str]] = {}
    found: dict[str, dict[str, str]] = {}
    for wheel in wheels:
        version = Path(wheel).name.split("-")[1]
        found[version] = {}
        for module, names in modules_of(wheel):
            new = names - known.setdefault(module, set())
            known[module] |= new
            if wheel == wheels[0] or (new and not module.startswith(RUNTIME)):
                found[version][module] = " ".join(sorted(new))
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def modules_of(wheel: str) -> Iterator[tuple[str, set[str]]]:
    """Each module below the package, with the public names in it."""
    with zipfile.ZipFile(wheel) as archive:
        for file in sorted(archive.namelist()):
            parts = file.removesuffix(".py").removesuffix("/__init__").split("/")
            if file.endswith(".py") and parts[0] == PACKAGE and not LEFT_OUT & set(parts):
                names = set(names_in(ast.parse(archive.read(file)).body, parts[-1]))
                yield ".".join(parts[1:]), {name for name in names if name[0] not in "_*"}


def names_in(body: list[ast.stmt], module: str) -> Iterator[str]:
    """What the statements of a module bind, as far as it is PyFlink's own."""
    for node in body:
        if isinstance(node, ast.ImportFrom):
            if node.level or (node.module or "").split(".")[0] == PACKAGE:
                yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.FunctionDef):
            yield node.name
            yield from set_later(node, module)
        elif isinstance(node, ast.Assign):
            yield from (n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.If | ast.Try) and not is_for_others(node):
            yield from names_in([*node.body, *node.orelse], module)


def set_later(function: ast.FunctionDef, module: str) -> Iterator[str]:
    """What a function sets in its own module: ``setattr(module, "Name", ...)``."""
    for node in ast.walk(function):
        match node:
            case ast.Call(ast.Name("setattr"), [ast.Name(owner), ast.Constant(str(name)), _]):
                if owner == module:
                    yield name


def is_for_others(node: ast.If | ast.Try) -> bool:
    """Whether a branch is for type checkers, or for a module that is run as a program."""
    return isinstance(node, ast.If) and any(
        isinstance(n, ast.Name) and n.id in ("TYPE_CHECKING", "__name__") for n in ast.walk(node.test)
    )


if __name__ == "__main__":
    main(sys.argv[1:])
