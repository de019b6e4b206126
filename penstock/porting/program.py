"""One program: which names to rewrite, and what has no equivalent.

A ``pyflink`` is rewritten where it is the package's name: in imports, and in dotted uses of what such an
import bound.  An import of a module that does not exist here stays as it is, with all that uses it.

If something else binds a name, what was imported under it cannot be followed through the program.  Names are
changed by their position in the text: everything else stays as it is, to the byte.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from penstock.porting.equivalents import (
    FROM,
    JAVA,
    JAVA_ATTRIBUTE,
    JAVA_BY_NAME,
    NOT_NEEDED,
    TO,
    Absent,
    advice,
    follow,
    has_a_home,
    is_pyflink,
    member,
    module,
    refuses,
)
from penstock.porting.findings import Finding, Kind

_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
Place = tuple[int, int]
"""Line, counted from 1, and column in characters, counted from 0."""
_NAMES_IT = re.compile(rf"{FROM}(\.\w+)*|.*\b(import|from)\s+{FROM}\b.*", re.DOTALL)
_TEXT = f"a text that names {FROM} is not rewritten: change it if it is what gets imported"
_FORMATTED = f"{FROM} inside a formatted string is not rewritten: change it to {TO}"
_TAKEN = "is also something else in this program: rename that, or change the import by hand"


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


class Text:
    """A program's lines as Python's parser counts them, and the names in them."""

    def __init__(self, text: str) -> None:
        self._lines = _LINE.findall(text)
        # The tokens are asked for positions only; Python's own end of line spares them the others.
        self._names = [
            token
            for token in tokenize.generate_tokens(io.StringIO("\n".join(self._bare())).readline)
            if token.type == tokenize.NAME
        ]

    def _bare(self) -> list[str]:
        return [line.rstrip("\r\n") for line in self._lines]

    def place(self, line: int, byte: int) -> Place:
        """Where the syntax tree's ``line`` and ``byte`` are in characters."""
        return line, len(self._lines[line - 1].encode()[:byte].decode(errors="replace"))

    def first_name(self, start: Place, end: Place) -> Place | None:
        """The first ``pyflink`` between two places, written as a name."""
        return next((t.start for t in self._names if start <= t.start < end and t.string == FROM), None)

    def says(self, place: Place) -> bool:
        """Whether ``pyflink`` stands exactly there, as a name."""
        return self.first_name(place, (place[0], place[1] + 1)) is not None

    def replaced(self, places: Iterable[Place]) -> str:
        """The text with ``penstock`` at each of ``places``."""
        lines = list(self._lines)
        for line, column in sorted(set(places), reverse=True):
            old = lines[line - 1]
            lines[line - 1] = old[:column] + TO + old[column + len(FROM) :]
        return "".join(lines)


def port(source: str) -> tuple[str, list[Finding]]:
    """``source`` for Penstock, and what was found. Raises what the parser raises."""
    tree = ast.parse(source)
    reading = _Reading(Text(source), bound_otherwise(tree))
    reading.bind(tree)
    reading.visit(tree)
    after = reading.text.replaced(reading.places)
    ast.parse(after)
    return after, sorted(set(reading.findings))


class _Reading(ast.NodeVisitor):
    """One walk over the tree. :meth:`bind` comes first: functions use what is imported below them."""

    def __init__(self, text: Text, taken: set[str]) -> None:
        self.text = text
        self.places: list[Place] = []
        self.findings: list[Finding] = []
        self._taken = taken
        self._bound: dict[str, tuple[str, Any]] = {}  # a local name to PyFlink's name and what is here
        self._left: set[str] = set()  # modules whose imports stay as they are
        self._package_bound = False
        self._caught = False

    # --- what imports bind ------------------------------------------------------------------

    def bind(self, tree: ast.Module) -> None:
        """Take in the imports, wherever they stand."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._bind_module(alias)
            elif isinstance(node, ast.ImportFrom) and not node.level and is_pyflink(node.module):
                for alias in node.names:
                    self._bind_member(f"{node.module}.{alias.name}", alias.asname or alias.name)

    def _bind_module(self, alias: ast.alias) -> None:
        if not is_pyflink(alias.name):
            return
        if alias.asname is None:
            self._package_bound = True
        try:
            found = module(alias.name)
        except Absent:
            self._left.add(alias.name)
            return
        if alias.asname and alias.asname not in self._taken:
            self._bound[alias.asname] = (alias.name, found)

    def _bind_member(self, dotted: str, local: str) -> None:
        owner, _, name = dotted.rpartition(".")
        try:
            if name != "*" and local not in self._taken:
                self._bound[local] = (dotted, member(module(owner), name, dotted))
        except Absent:
            self._bound.pop(local, None)

    @property
    def _clash(self) -> str | None:
        """A name that would mean two things: then nothing that goes by the package's name is rewritten."""
        return next((name for name in (FROM, TO) if self._package_bound and name in self._taken), None)

    # --- imports ----------------------------------------------------------------------------

    def visit_Try(self, node: ast.Try) -> None:
        before, self._caught = self._caught, self._caught or caught(node)
        for child in node.body:
            self.visit(child)
        self._caught = before
        for handler in node.handlers:
            self.visit(handler)
        for child in [*node.orelse, *node.finalbody]:
            self.visit(child)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if not is_pyflink(alias.name):
                continue
            if alias.asname is None and (name := self._clash):
                self._find(node, f"the name {name}", f"{name} {_TAKEN}", Kind.BY_HAND)
            elif self._exists(node, alias.name):
                self.places.append(self.text.place(alias.lineno, alias.col_offset))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or not is_pyflink(node.module):
            return
        if not self._exists(node, str(node.module), [alias.name for alias in node.names]):
            return
        start = self.text.place(node.lineno, node.col_offset)
        place = self.text.first_name(start, self.text.place(node.end_lineno or 0, node.end_col_offset or 0))
        assert place is not None, "an import names its module"
        self.places.append(place)
        for alias in node.names:
            if alias.name != "*":
                self._check(alias, f"{node.module}.{alias.name}", module(str(node.module)), [alias.name])

    def _exists(self, node: ast.AST, name: str, members: Sequence[str] = ()) -> bool:
        """Whether there is such a module; if not, it is said once, and of each member that is elsewhere."""
        try:
            module(name)
        except Absent as absent:
            left = f" (the import of {name} is left as it is)"
            moved = [f"{name}.{member}" for member in members if has_a_home(f"{name}.{member}")]
            for dotted in moved:
                self._missing(node, dotted, left)
            if not moved or len(moved) < len(members):
                self._missing(node, absent.args[0], left)
            return False
        return True

    # --- uses -------------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> None:
        base, chain = _chain(node)
        attributes = [link.attr for link in chain]
        for link in chain:
            self._check_java(link)
        if not isinstance(base, ast.Name):
            self.visit(base)
        elif base.id == FROM:
            self._package_use(base, attributes)
        elif base.id in self._bound:
            dotted, found = self._bound[base.id]
            self._check(node, ".".join([dotted, *attributes]), found, attributes)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id == FROM:
            self._package_use(node, [])

    def _package_use(self, base: ast.Name, attributes: list[str]) -> None:
        dotted = ".".join([FROM, *attributes])
        if not self._package_bound or self._clash:
            return
        if any(dotted == left or dotted.startswith(left + ".") for left in self._left):
            return
        place = self.text.place(base.lineno, base.col_offset)
        if not self.text.says(place):
            self._find(base, dotted, _FORMATTED, Kind.BY_HAND)
            return
        self.places.append(place)
        self._check(base, dotted, module(FROM), attributes)

    def _check_java(self, node: ast.Attribute) -> None:
        if JAVA_ATTRIBUTE.fullmatch(node.attr):
            self._find(node, f".{node.attr}", JAVA, Kind.MISSING)
        elif node.attr in NOT_NEEDED:
            self._find(node, f".{node.attr}()", NOT_NEEDED[node.attr], Kind.NOTE)

    def visit_Call(self, node: ast.Call) -> None:
        dotted = self._bound.get(node.func.id, ("", None))[0] if isinstance(node.func, ast.Name) else ""
        name = dotted.rpartition(".")[2]
        if name in JAVA_BY_NAME and any(_is_text(argument) for argument in _arguments(node)):
            self._find(node, f"{name} of a Java class", JAVA_BY_NAME[name], Kind.MISSING)
        called = self._called(node.func)
        if called is not None and refuses(called[1]):
            self._find(node, f"{called[0]}()", advice(called[0]), Kind.MISSING)
        self.generic_visit(node)

    def _called(self, function: ast.expr) -> tuple[str, Any] | None:
        """What is called, by PyFlink's name, and what stands there here."""
        base, chain = _chain(function) if isinstance(function, ast.Attribute) else (function, [])
        if not isinstance(base, ast.Name):
            return None
        if base.id == FROM and self._package_bound:
            dotted, start = FROM, module(FROM)
        elif base.id in self._bound:
            dotted, start = self._bound[base.id]
        else:
            return None
        attributes = [link.attr for link in chain]
        try:
            return ".".join([dotted, *attributes]), follow(start, dotted, attributes)
        except Absent:  # told where the name itself is visited
            return None

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and _NAMES_IT.fullmatch(node.value):
            self._find(node, repr(node.value[:60]), _TEXT, Kind.BY_HAND)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not _is_text(node.value):  # a text that stands alone is a docstring or a comment
            self.generic_visit(node)

    # --- findings ---------------------------------------------------------------------------

    def _check(self, node: ast.AST, dotted: str, start: Any, attributes: list[str]) -> None:
        above = dotted.split(".")[: -len(attributes)] if attributes else dotted.split(".")
        try:
            follow(start, ".".join(above), attributes)
        except Absent as absent:
            self._missing(node, absent.args[0], "")

    def _missing(self, node: ast.AST, dotted: str, more: str) -> None:
        if self._caught:
            more, kind = f"{more}; the program catches that", Kind.NOTE
        else:
            kind = Kind.MISSING
        self._find(node, dotted, advice(dotted) + more, kind)

    def _find(self, node: ast.AST, what: str, todo: str, kind: Kind) -> None:
        at = "end_lineno" if isinstance(node, ast.Attribute) else "lineno"  # where the name itself stands
        self.findings.append(Finding(getattr(node, at), what, todo, kind))


def _chain(node: ast.Attribute) -> tuple[ast.expr, list[ast.Attribute]]:
    """``a.b.c`` as ``a`` and the attributes, ``b`` first."""
    links: list[ast.Attribute] = []
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        links.insert(0, inner)
        inner = inner.value
    return inner, links


def _arguments(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args
    yield from (keyword.value for keyword in call.keywords)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
