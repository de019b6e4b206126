"""Every public name and signature of PyFlink's DataStream API, compared with Penstock's.

``surface.json`` holds the names and signatures of PyFlink 2.3, and those of 1.20 that 2.x dropped.  A call
that is right there must be right here: the same module, class and method, the same parameters in the same
order with the same defaults.  More may be allowed than there: further optional parameters, and defaults
where PyFlink has none.  Parameters that take Java objects (``j_...``) are left out.

``exceptions.json`` lists what is not so, by reason.  An entry that is no gap any more fails the test too.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
SURFACE: dict[str, dict[str, dict[str, Any]]] = json.loads((HERE / "surface.json").read_text())
EXCEPTIONS: dict[str, list[str]] = json.loads((HERE / "exceptions.json").read_text())


def wanted_parameters(signature: str) -> list[tuple[str, str | None]]:
    """Names and defaults (as source text) of a signature such as ``(a, b=None, *rest)``."""
    found = ast.parse(f"def f{signature}: pass").body[0]
    assert isinstance(found, ast.FunctionDef)
    arguments = found.args
    names = [argument.arg for argument in arguments.args]
    blanks: list[ast.expr | None] = [None] * (len(names) - len(arguments.defaults))
    defaults = [None if d is None else ast.unparse(d) for d in [*blanks, *arguments.defaults]]
    pairs = list(zip(names, defaults, strict=True))
    if arguments.vararg is not None:
        pairs.append((f"*{arguments.vararg.arg}", None))
    if arguments.kwarg is not None:
        pairs.append((f"**{arguments.kwarg.arg}", None))
    return [pair for pair in pairs if not pair[0].startswith("j_")]


def our_parameters(function: Any, owner: type | None) -> list[inspect.Parameter]:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if owner is not None and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    return parameters


def misfit(signature: str, function: Any, owner: type | None) -> str | None:
    """Why a call that fits ``signature`` might not fit ``function``."""
    ours = our_parameters(function, owner)
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    for position, (name, default) in enumerate(wanted_parameters(signature)):
        if position >= len(ours):
            return f"no parameter {name}"
        parameter = ours[position]
        if name != stars.get(parameter.kind, "") + parameter.name:
            return f"parameter {position} is {parameter.name}, not {name}"
        if default is not None and not _is_default(default, parameter.default, function):
            return f"{name} defaults to {parameter.default!r}, not {default}"
    for parameter in ours[len(wanted_parameters(signature)) :]:
        if parameter.default is inspect.Parameter.empty and parameter.kind not in stars:
            return f"{parameter.name} is required"
    return None


def _is_default(wanted: str, ours: object, function: Any) -> bool:
    """Whether a default is the wanted one; an enum may have it under another of its names."""
    if _value(wanted) in (ours, str(ours)):
        return True
    name, _, member = wanted.partition(".")
    kind = getattr(importlib.import_module(function.__module__), name, None)
    return member in getattr(kind, "__members__", {}) and getattr(kind, member) is ours


def _value(source: str) -> object:
    """The value of a default: a literal, a product of literals, or the name of an enum's member."""
    tree = ast.parse(source, mode="eval").body
    if isinstance(tree, ast.Attribute):
        return source
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult):
        left, right = _value(ast.unparse(tree.left)), _value(ast.unparse(tree.right))
        assert isinstance(left, int) and isinstance(right, int)
        return left * right
    return ast.literal_eval(tree)


def member_gaps(where: str, kind: type, members: list[str]) -> Iterator[tuple[str, str]]:
    """Gaps in the attributes and methods of a class."""
    for member in members:
        modifier, rest = member.split(" ", 1) if member.startswith(("static ", "class ")) else ("", member)
        name, parenthesis, tail = rest.partition("(")
        full = f"{where}.{name}"
        if not hasattr(kind, name):
            yield full, "missing"
        elif parenthesis and name == "__init__":
            if not tail.startswith("j_") and (problem := misfit(f"({tail}", kind, None)):
                yield full, problem
        elif parenthesis and not name.startswith("__"):
            static = inspect.getattr_static(kind, name)
            if modifier and not isinstance(static, staticmethod | classmethod):
                yield full, f"is not a {modifier} method"
            elif problem := misfit(f"({tail}", getattr(kind, name), kind):
                yield full, problem


def class_named(module: ModuleType, name: str) -> type | None:
    """A class of a module, or of a class in it."""
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def gaps() -> Iterator[tuple[str, str]]:
    """Everything PyFlink has and Penstock has not: where, and what."""
    for surface in SURFACE.values():
        for name, contents in surface.items():
            try:
                module = importlib.import_module(f"penstock.{name}")
            except ModuleNotFoundError:
                yield name, "missing"
                continue
            for exported in contents.get("exports", ()):
                if not hasattr(module, exported):
                    yield f"{name}:{exported}", "missing"
            for function in contents.get("functions", ()):
                plain, _, tail = function.partition("(")
                if not hasattr(module, plain):
                    yield f"{name}:{plain}", "missing"
                elif problem := misfit(f"({tail}", getattr(module, plain), None):
                    yield f"{name}:{plain}", problem
            for class_name, members in contents.get("classes", {}).items():
                kind = class_named(module, class_name)
                if kind is None:
                    yield f"{name}:{class_name}", "missing"
                else:
                    yield from member_gaps(f"{name}:{class_name}", kind, members)


def test_every_gap_has_a_reason_and_every_reason_a_gap() -> None:
    patterns = [pattern for listed in EXCEPTIONS.values() for pattern in listed]
    used: set[str] = set()
    unexplained = []
    for where, problem in gaps():
        hits = [pattern for pattern in patterns if fnmatchcase(where, pattern)]
        used.update(hits)
        if not hits:
            unexplained.append(f"{where}: {problem}")
    assert not unexplained, "\n".join(unexplained)
    stale = sorted(set(patterns) - used)
    assert not stale, f"no gaps any more, take them out of exceptions.json: {stale}"


def test_the_surface_is_all_of_it() -> None:
    classes = [name for contents in SURFACE["2.3"].values() for name in contents.get("classes", {})]
    members = [m for c in SURFACE["2.3"].values() for listed in c.get("classes", {}).values() for m in listed]
    assert (len(classes), len(members)) == (345, 1556)
