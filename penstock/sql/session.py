"""A session: an environment, the names that statements have given, and what statements do."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from penstock.core.config import Configuration
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.dataframe import DataFrame, from_arrow
from penstock.dataframe.states import named_apart
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.expressions.suggest import nearest
from penstock.sql import dialect
from penstock.sql.catalog import Catalog
from penstock.sql.connectors import is_read
from penstock.sql.dialect import BeginSet, Explain, SetOption, ShowAll
from penstock.sql.errors import Text
from penstock.sql.explaining import explained
from penstock.sql.planner import Planner
from penstock.sql.planner_settings import planner_setting
from penstock.sql.reading import read
from penstock.sql.relations import Relation
from penstock.sql.tables import TableDefinition, definition
from penstock.sql.writing import insert


@dataclass(frozen=True)
class Outcome:
    """What a statement came to: rows of a query that is yet to run, rows at hand, or a word."""

    said: str = "OK"
    frame: DataFrame | None = None
    rows: tuple[dict[str, Any], ...] | None = None
    inserts: bool = False
    """Whether a sink was added, which runs with the next job."""

    def as_frame(self) -> DataFrame:
        """The same as a DataFrame, for whoever expects one of every statement."""
        if self.frame is not None:
            return self.frame
        rows = self.rows or ({"result": self.said},)
        return from_arrow(pa.Table.from_pylist(list(rows)))


class Session:
    """Runs statements in an environment; tables, views and functions are known from one to the next.

    >>> session = Session()
    >>> _ = session.sql("CREATE TABLE n (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = "
    ...     "'sequence', 'fields.id.start' = '1', 'fields.id.end' = '4')")
    >>> sorted(row["twice"] for row in session.sql("SELECT id * 2 AS twice FROM n WHERE id > 2").to_pylist())
    [6, 8]
    """

    def __init__(self, env: Env | None = None) -> None:
        self.env = Env.get_execution_environment() if env is None else env
        self.catalog = Catalog()
        self._in_set = False
        self._set_adds: list[Callable[[], None]] = []
        """The sinks of a statement set, all of which begin when it ends."""

    # --- names -------------------------------------------------------------------------------------

    def register(self, name: str, frame: DataFrame, time: str | None = None) -> None:
        """Let statements read a DataFrame as a table.

        ``time`` is the column with the event time of its rows, for windows and joins in time; frames that
        were made with ``time=`` know it.
        """
        if not isinstance(frame, DataFrame):
            raise ConfigError(f"register takes a DataFrame, not {type(frame).__name__}")
        chosen = time if time is not None else getattr(frame, "_time", None)
        if chosen is not None and chosen not in frame.columns:
            raise ConfigError(
                f"there is no column {chosen!r}; there are {', '.join(frame.columns)}",
                code=Code.UNKNOWN_COLUMN,
            )
        if time is not None and not frame.has_event_time:
            raise ConfigError(
                f"the rows have no event time; name its column where they come from, by time={time!r}"
            )
        self.catalog.forget(name)
        known = named_apart(frame, "frame", name)
        self.catalog.frames[name] = Relation.of(known, name, name, [] if chosen is None else [chosen])

    def register_function(self, name: str, function: Any) -> None:
        """Let statements call a function that was made by ``udf``."""
        if not callable(function):
            raise ConfigError(f"function {name!r} is made by udf(function, result_type=...)")
        self.catalog.functions[name] = function

    def relation(self, name: str) -> Relation | None:
        """What a name stands for."""
        return self.catalog.relation(name, lambda _, table: read(table, self.env, self.catalog.functions))

    def near(self, name: str) -> str:
        """The end of a message about a name that is not there."""
        return self.catalog.near(name)

    # --- statements --------------------------------------------------------------------------------

    def sql(self, statement: str, **frames: DataFrame) -> DataFrame:
        """One statement.  A query is a DataFrame; INSERT adds its sink to the environment, which runs it."""
        for name, frame in frames.items():
            self.register(name, frame)
        return self.perform(dialect.one(statement), Text(statement)).as_frame()

    def statements(self, text: str) -> Iterator[tuple[exp.Expr, Text]]:
        """The statements of a text."""
        place = Text(text)
        return ((statement, place) for statement in dialect.parsed(text))

    @property
    def in_set(self) -> bool:
        """Whether a statement set was begun and not ended: its INSERTs run together, in one job."""
        return self._in_set

    def perform(self, node: exp.Expr, text: Text) -> Outcome:
        """Do what a statement says."""
        if self._in_set and not isinstance(node, exp.Insert | exp.EndStatement | BeginSet):
            raise text.refuse(node, "a statement set takes INSERT INTO statements; END it first")
        if isinstance(node, exp.Query | exp.Values):
            return Outcome(frame=self.query(node, text).frame)
        for kind, do in _STATEMENTS:
            if isinstance(node, kind):
                found: Outcome = do(self, node, text)
                return found
        raise text.refuse(
            node,
            f"{node.sql()[:40].split(' ')[0]} is no statement that is there; SELECT, INSERT INTO, CREATE "
            "TABLE, VIEW "
            "and FUNCTION, DROP, EXPLAIN, DESCRIBE, SHOW, SET and statement sets are",
        )

    def query(self, node: exp.Expr, text: Text) -> Relation:
        """The relation of a query."""
        try:
            return Planner(text, self, self.catalog.functions).whole(node)
        except RecursionError:
            raise text.refuse(node, "the query is nested too deeply; give its parts names, by WITH") from None

    def _create(self, node: exp.Create, text: Text) -> Outcome:
        kind = str(node.kind).upper()
        if kind not in ("TABLE", "VIEW", "FUNCTION"):
            raise text.refuse(node, f"CREATE {kind} is not there; TABLE, VIEW and FUNCTION are")
        text.only(node, ("kind", "properties", "exists", "replace"))
        inner = node.this.this if isinstance(node.this, exp.Schema | exp.UserDefinedFunction) else node.this
        name = text.name(inner)
        if kind == "FUNCTION":
            return self._create_function(name, node, text)
        if self.catalog.is_known(name) and not node.args.get("replace"):
            if node.args.get("exists"):
                return Outcome(f"{name} is there already")
            raise text.refuse(inner, f"{name!r} is there already; DROP it, or write IF NOT EXISTS")
        if kind == "TABLE":
            if node.expression is not None:
                raise text.refuse(
                    node, "CREATE TABLE AS is not there; CREATE VIEW, or CREATE TABLE and INSERT INTO"
                )
            self.define(definition(node, text))
            return Outcome(f"table {name}")
        _check_properties(node, text, exp.TemporaryProperty, exp.SchemaCommentProperty)
        relation = self.query(node.expression, text)
        names = [it.name for it in node.this.expressions] if isinstance(node.this, exp.Schema) else []
        if names:
            relation = _with_names(relation, names, node, text)
        self.catalog.forget(name)
        self.catalog.views[name] = lambda: relation
        return Outcome(f"view {name}")

    def define(self, table: TableDefinition) -> None:
        """Let statements know a table."""
        self.catalog.forget(table.name)
        self.catalog.tables[table.name] = table

    def _create_function(self, name: str, node: exp.Create, text: Text) -> Outcome:
        _check_properties(node, text, exp.TemporaryProperty, exp.LanguageProperty)
        place = node.expression
        if not (isinstance(place, exp.Literal) and place.is_string):
            raise text.refuse(
                node, "a function is named by its place: CREATE FUNCTION f AS 'module.function'"
            )
        if name in self.catalog.functions and node.args.get("exists"):
            return Outcome(f"{name} is there already")
        module, _, attribute = place.this.rpartition(".")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise text.refuse(node, f"there is no {place.this!r} to import: {error}") from error
        self.register_function(name, found)
        return Outcome(f"function {name}")

    def _drop(self, node: exp.Drop, text: Text) -> Outcome:
        kind = str(node.args.get("kind")).upper()
        text.only(node, ("kind", "exists", "tables", "temporary"))
        tables = node.args.get("tables") or [node.this]
        if kind not in ("TABLE", "VIEW", "FUNCTION") or len(tables) > 1:
            raise text.refuse(node, "DROP takes one TABLE, VIEW or FUNCTION")
        name = text.name(tables[0])
        catalog = self.catalog
        kinds: dict[str, Collection[str]] = {
            "FUNCTION": catalog.functions,
            "VIEW": {*catalog.views, *catalog.frames},
            "TABLE": {*catalog.tables, *catalog.frames},
        }
        if name not in kinds[kind]:
            if node.args.get("exists") and (kind == "FUNCTION" or not catalog.is_known(name)):
                return Outcome(f"there was no {name}")
            raise text.refuse(node, f"there is no {kind.lower()} {name!r}{nearest(name, kinds[kind])}")
        if kind == "FUNCTION":
            del self.catalog.functions[name]
        else:
            self.catalog.forget(name)
        return Outcome(f"{name} is gone")

    def _insert(self, node: exp.Insert, text: Text) -> Outcome:
        text.only(node, ("overwrite",))
        target = node.this.this if isinstance(node.this, exp.Schema) else node.this
        text.only(target, ("db", "catalog"))
        table = self.catalog.tables.get(text.name(target))
        if table is None:
            near = nearest(target.name, self.catalog.tables)
            raise text.refuse(target, f"there is no table {target.name!r} to write to{near}")
        relation = self.query(node.expression, text)
        add = insert(node, table, relation, text, self.env, table.name)
        if self._in_set:
            self._set_adds.append(add)
        else:
            add()
        return Outcome(f"into {table.name}", inserts=True)

    def _describe(self, node: exp.Describe, text: Text) -> Outcome:
        text.only(node, ())
        name = text.name(node.this)
        table = self.catalog.tables.get(name)
        if table is not None and not is_read(table):
            columns = [{"name": it.name, "type": str(it.type), "null": it.nullable} for it in table.written()]
            return Outcome(rows=tuple({**it, "event time": False} for it in columns))
        with text.at(node):
            relation = self.relation(name)
        if relation is None:
            raise text.refuse(node, f"there is no table {name!r}{self.near(name)}")
        schema, rows = relation.frame.schema, []
        for it in relation.fields:
            kind = "the clock's time" if it.column is None else str(schema.field(it.column).type)
            time = it.column in relation.times
            rows.append({"name": it.name, "type": kind, "null": it.nullable, "event time": time})
        return Outcome(rows=tuple(rows))

    def _show(self, node: ShowAll, text: Text) -> Outcome:
        names: Sequence[str] = {
            "TABLES": self.catalog.names,
            "VIEWS": sorted(self.catalog.views),
            "FUNCTIONS": sorted(self.catalog.functions),
        }[str(node.this)]
        return Outcome("none", rows=tuple({"name": name} for name in names) or None)

    def _set(self, node: SetOption, text: Text) -> Outcome:
        if node.args.get("value") is None:
            settings: dict[str, Any] = {}
            self.env.configuration().add_all_to_dict(settings)
            return Outcome(
                "none", rows=tuple({"key": key, "value": "..."} for key in sorted(settings)) or None
            )
        key, value = node.this.name, node.args["value"].name
        with text.at(node):
            if not planner_setting(key, value):
                Configuration.from_dict({key: value}).check()
                self.env._configuration.set_string(key, value)
        return Outcome(f"{key}")

    def _explain(self, node: Explain, text: Text) -> Outcome:
        return Outcome(rows=tuple({"plan": line} for line in explained(self, node.this, text)))

    @contextmanager
    def a_set(self) -> Iterator[None]:
        """The sinks that are added in this block, all of them or, if one is refused, none."""
        before, self._set_adds, self._in_set = self._in_set, [], True
        try:
            yield
            for add in self._set_adds:
                add()
        finally:
            self._set_adds, self._in_set = [], before

    def in_the_set(self, add: Callable[[], None]) -> None:
        """Let a sink begin with the others of the set."""
        self._set_adds.append(add)

    def _begin(self, node: BeginSet, text: Text) -> Outcome:
        if self._in_set:
            raise text.refuse(node, "a statement set was begun already; END it first")
        self._in_set = True
        return Outcome("a statement set") if node.this is None else self.perform(node.this, text)

    def _end(self, node: exp.EndStatement, text: Text) -> Outcome:
        if not self._in_set:
            raise text.refuse(
                node, "there is no statement set to END; begin one with EXECUTE STATEMENT SET BEGIN"
            )
        adds, self._set_adds, self._in_set = self._set_adds, [], False
        for add in adds:
            add()
        return Outcome("statement set", inserts=True)


def _check_properties(node: exp.Create, text: Text, *known: type[exp.Expr]) -> None:
    """Refuse what stands between the name and AS, and is not read."""
    properties = node.args.get("properties")
    for part in properties.expressions if properties is not None else ():
        if not isinstance(part, known):
            raise text.refuse(part, f"{part.sql()[:60]} cannot stand in CREATE {node.kind}")


def _with_names(relation: Relation, names: list[str], node: exp.Expr, text: Text) -> Relation:
    from dataclasses import replace

    if len(names) != len(relation.fields):
        raise text.refuse(node, f"{len(names)} names for {len(relation.fields)} columns")
    fields = tuple(replace(it, name=name) for it, name in zip(relation.fields, names, strict=True))
    return replace(relation, fields=fields)


_STATEMENTS: tuple[tuple[Any, Any], ...] = (
    (exp.Create, Session._create),
    (exp.Drop, Session._drop),
    (exp.Insert, Session._insert),
    (exp.Describe, Session._describe),
    (ShowAll, Session._show),
    (SetOption, Session._set),
    (Explain, Session._explain),
    (BeginSet, Session._begin),
    (exp.EndStatement, Session._end),
)


def session_of(env: Env) -> Session:
    """The session of an environment: the same at each call, so that tables are known from one to the next."""
    if env._sql_session is None:
        env._sql_session = Session(env)
    found: Session = env._sql_session
    return found
