"""Who else binds a name: then what was imported under it cannot be followed through the program."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from penstock.porting.equivalents import FROM, TO, is_pyflink

_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


def bound_otherwise(tree: ast.Module) -> set[str]:
    """Every name that something binds, anywhere, that is not an import of PyFlink.

    An assignment to the package's own name is none of these: it is rewritten like every use of it.
    """
    return {name for node in ast.walk(tree) for name in _binds(node) if name is not None}


def _binds(node: ast.AST) -> Iterator[str | None]:
    match node:
        case ast.Name(ctx=ast.Store() | ast.Del()):
            yield None if node.id == FROM else node.id
        case ast.arg():
            yield node.arg
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.ExceptHandler(name=str()) | ast.MatchAs(name=str()) | ast.MatchStar(name=str()):
            yield node.name
        case ast.MatchMapping(rest=str()):
            yield node.rest
        case ast.Global() | ast.Nonlocal():
            yield from node.names
        case ast.Import():
            yield from (
                alias.asname or alias.name.split(".")[0]
                for alias in node.names
                if not is_pyflink(alias.name) and (alias.asname or alias.name.split(".")[0] != TO)
            )
        case ast.ImportFrom() if node.level or not is_pyflink(node.module):
            yield from (alias.asname or alias.name for alias in node.names)


def caught(node: ast.Try) -> bool:
    """Whether a failed import in the body is foreseen."""
    return any(
        handler.type is None
        or any(isinstance(n, ast.Name) and n.id in _IMPORT_ERRORS for n in ast.walk(handler.type))
        for handler in node.handlers
    )
