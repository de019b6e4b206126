"""``spark.read.format("penstock-state")``: snapshots as DataFrames, and state files out of them.

Reading has one task per piece of state.  The planning half runs on the driver: it finds the snapshot, looks
at the heads of blocks and settles columns and types.  Each task then reads its own piece.  Once planned, a
DataFrame stays with the snapshot it found, also if it was named by a job's directory and the job goes on.

Writing has two steps: every row is told the number of its file (Penstock's own hash of the key), then Spark
brings the rows of a file together and a task writes it.  Only handles come back to the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from penstock.core.error_codes import Code
from penstock.core.errors import ClusterError, ConfigError, SnapshotError
from penstock.core.handles import KeyedHandle
from penstock.snapshot.store import open_store
from penstock.spark.failures import wrong_python
from penstock.spark.session import is_connect
from penstock.spark.shipping import share
from penstock.state_processor.files import Target, entries_of, keys_of, write_rows
from penstock.state_processor.scan import Piece, Scan
from penstock.state_processor.snapshot import Snapshot
from penstock.state_processor.values import MisfitError, to_text

FORMAT = "penstock-state"
_CHOICES = {"trusted": ("false", "true"), "types": ("auto", "text")}
_KNOWN = {"path", "table", "operator", "state", "trusted", "types"}


def register(spark: SparkSession) -> None:
    """Make the format known to a session, and Penstock to its executors."""
    if is_connect(spark):
        raise ClusterError(
            f'spark.read.format("{FORMAT}") needs a classic session (SparkSession.builder.master(...), '
            "--master or spark-submit): executors behind Spark Connect do not get the code that reads state. "
            "penstock.state_processor.open_snapshot(PATH) reads the same tables here, without Spark",
            code=Code.SPARK_CONNECT,
        )
    share(spark)
    spark.dataSource.register(StateDataSource)


def frame(session: SparkSession | None, path: str, **options: str) -> DataFrame:
    """A table of the snapshot at ``path``, in a session that need not know the format yet."""
    spark = session or SparkSession.getActiveSession()
    if spark is None:
        raise ConfigError("there is no active Spark session; pass one, or start one first")
    register(spark)
    return spark.read.format(FORMAT).options(**options).load(path)


@dataclass(frozen=True)
class _Plan:
    """What a DataFrame consists of: rows at hand, or pieces to read."""

    schema: pa.Schema
    root: str
    scan: Scan | None = None
    rows: bytes = b""
    """Rows at hand, as an Arrow stream."""


class _Share(InputPartition):  # type: ignore[misc]
    """One task's part."""

    def __init__(self, piece: Piece | None) -> None:
        self.piece = piece


class StateDataSource(DataSource):  # type: ignore[misc]
    """Options: ``table``, ``operator``, ``state``, ``trusted``, ``types``; see the guide."""

    def __init__(self, options: Mapping[str, str]) -> None:
        unknown = sorted(set(map(str.lower, options)) - _KNOWN)
        if unknown:
            raise ConfigError(
                f"{FORMAT} has no option {', '.join(unknown)}; it has {', '.join(sorted(_KNOWN - {'path'}))}"
            )
        for key, allowed in _CHOICES.items():
            if options.get(key, allowed[0]).lower() not in allowed:
                raise ConfigError(f"{FORMAT}: option {key} is {' or '.join(allowed)}, not {options[key]!r}")
        self._options = {key.lower(): value for key, value in options.items()}
        self._plan: _Plan | None = None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Columns and types of the table."""
        return spark_schema(self._planned().schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of the table."""
        return StateReader(self._planned(), schema)

    def _planned(self) -> _Plan:
        if self._plan is None:
            self._plan = _plan(self._options)
        return self._plan


class StateReader(DataSourceReader):  # type: ignore[misc]
    """Reads a planned table."""

    def __init__(self, plan: _Plan, schema: StructType) -> None:
        self._plan = plan
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """A share for each piece; one if the rows are at hand."""
        pieces: Sequence[Piece | None] = (None,) if self._plan.scan is None else self._plan.scan.pieces
        return [_Share(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a share."""
        wanted = to_arrow_schema(self._schema, timezone="UTC")
        for batch in self._batches(partition.piece):
            arrays = [_as(batch.column(field.name), field.type) for field in wanted]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)

    def _batches(self, piece: Piece | None) -> Iterator[pa.RecordBatch]:
        if self._plan.scan is None or piece is None:
            yield from pa.ipc.open_stream(self._plan.rows)
            return
        try:
            yield from self._plan.scan.batches(open_store(self._plan.root, create=False), piece)
        except MisfitError as error:
            raise SnapshotError(
                f"state {piece.state!r} holds values of different types ({error}); read it with "
                f'option("types", "text"), which shows pickled columns as JSON'
            ) from error


def spark_schema(schema: pa.Schema) -> StructType:
    """Spark's types for a table; a column that Spark has no type for is text."""
    return StructType([StructField(field.name, _spark_type(field.type)) for field in schema])


def _spark_type(kind: pa.DataType) -> Any:
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type)
    try:
        return from_arrow_type(kind)
    except Exception:
        return StringType()


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    try:
        return array.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return to_text(array)


def _plan(options: Mapping[str, str]) -> _Plan:
    path = options.get("path")
    if not path:
        raise ConfigError(f'name the snapshot: spark.read.format("{FORMAT}").load(PATH)')
    snapshot = Snapshot(path, options.get("trusted", "false").lower() == "true")
    operator, state = options.get("operator"), options.get("state")
    table = options.get("table") or ("state" if state else "states")
    make = _TABLES.get(table)
    if make is None:
        raise ConfigError(f"{FORMAT} has no table {table!r}; it has {', '.join(_TABLES)}")
    if table in _NEED_OPERATOR and operator is None:
        raise ConfigError(f'table {table!r} is of one operator: add option("operator", UID)')
    if table == "state" and state is None:
        raise ConfigError('table "state" is one state: add option("state", NAME)')
    made = make(snapshot, operator or "", state or "")
    if isinstance(made, Scan):
        scan = made.as_text() if options.get("types", "auto").lower() == "text" else made
        return _Plan(scan.schema, snapshot.location.root, scan)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, made.schema) as writer:
        writer.write_table(made)
    return _Plan(made.schema, snapshot.location.root, rows=sink.getvalue().to_pybytes())


def _state(snapshot: Snapshot, operator: str, state: str) -> Scan | pa.Table:
    entry = snapshot.operator(operator)
    keyed = any(outline.name == state for found in snapshot.survey(entry) for outline in found.outlines)
    return snapshot.scan(operator, state) if keyed else snapshot.read(operator, state)


_TABLES: dict[str, Callable[[Snapshot, str, str], Scan | pa.Table]] = {
    "operators": lambda snapshot, operator, state: snapshot.operators(),
    "states": lambda snapshot, operator, state: snapshot.states(operator or None),
    "state": _state,
    "timers": lambda snapshot, operator, state: snapshot.timer_scan(operator),
    "keys": lambda snapshot, operator, state: snapshot.keys(operator, state or None),
    "sizes": lambda snapshot, operator, state: snapshot.sizes(),
}
_NEED_OPERATOR = {"state", "timers", "keys"}


_PART = "__part"

Batches = Iterable[pa.RecordBatch]


def write_frame(rows: DataFrame, url: str, target: Target) -> dict[int, KeyedHandle]:
    """Write the rows as the state ``target`` below ``url``; gives the handle of each file by its number."""
    share(rows.sparkSession)
    numbered = StructType([*rows.schema.fields, StructField(_PART, IntegerType())])
    divided = rows.mapInArrow(_numbering(target), numbered).repartitionById(target.parallelism, _PART)
    try:
        written = divided.mapInArrow(_writing(url, target), "part int, handle binary").collect()
    except Exception as error:
        raise wrong_python(error, rows.sparkSession.sparkContext.pythonExec) or error from None
    return {row.part: pickle.loads(bytes(row.handle)) for row in written}


def _numbering(target: Target) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def number(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                parts = pa.array(target.parts(keys_of(batch)), pa.int32())
                yield batch.append_column(_PART, parts)

    return number


def _writing(url: str, target: Target) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def write(batches: Batches) -> Iterator[pa.RecordBatch]:
        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return
        table = pa.Table.from_batches(held).drop_columns([_PART])
        store = open_store(url)
        handles = write_rows(store, target, keys_of(table), entries_of(target, table))
        pickled = [pickle.dumps(handle) for handle in handles.values()]
        yield pa.RecordBatch.from_arrays(
            [pa.array(list(handles), pa.int32()), pa.array(pickled, pa.binary())], ["part", "handle"]
        )

    return write
