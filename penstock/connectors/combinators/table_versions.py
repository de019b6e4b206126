"""A small table that is loaded again now and then, on the driver, as a source of versions.

Each load is a split with one record, the whole table; so a version is loaded once for all subtasks, and
those that a snapshot knows are not loaded again.  ``load`` runs in the driver process, where the Spark
session is; it does not travel to the slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.connectors.source import EndOfSplit, Source, Split, SplitEnumerator, SplitReader
from penstock.core.batch import Batch
from penstock.core.clock import Clock, SystemClock
from penstock.core.documents import dump, load
from penstock.core.errors import ConfigError

MAX_ROWS = 1_000_000
"""Tables with more rows are refused: every slot holds all of it, and so does every snapshot."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table as it was when it was loaded. The rows are kept as bytes: snapshots share them."""

    loaded_ms: int
    data: bytes

    def rows(self) -> list[Any]:
        """The rows."""
        rows: list[Any] = load(self.data)
        return rows

    @staticmethod
    def of(table: Any, loaded_ms: int) -> TableVersion:
        """What ``table`` holds now; see :func:`rows_of`."""
        return TableVersion(loaded_ms, dump(rows_of(table)))


def rows_of(table: Any) -> list[Any]:
    """The rows of a Spark, pandas or polars data frame, an Arrow table, or any iterable of rows.

    Frames and Arrow tables give ``Row`` objects with the names of the columns.
    """
    if hasattr(table, "sparkSession"):
        table = table.limit(MAX_ROWS + 1).toArrow()
    elif hasattr(table, "to_arrow"):
        table = table.to_arrow()
    elif hasattr(table, "iloc"):
        table = pa.Table.from_pandas(table, preserve_index=False)
    rows: list[Any]
    if isinstance(table, pa.Table):
        rows = [row for piece in table.to_batches() for row in Batch.of_columns(piece).to_rows()]
    elif isinstance(table, Iterable) and not isinstance(table, str | bytes):
        rows = list(table)
    else:
        raise ConfigError(
            f"cannot read {type(table).__name__} as a table; give a Spark, pandas or polars data frame, an "
            "Arrow table, or a list of rows"
        )
    if len(rows) > MAX_ROWS:
        raise ConfigError(
            f"the table has more than {MAX_ROWS} rows, too many to hold in every slot; key both sides and "
            "use a temporal join with the table as a stream, or a lookup join that asks the database"
        )
    return rows


class ReloadedTableSource(Source):
    """Versions of a table, one every ``every_ms`` milliseconds, for ever."""

    bounded = False

    def __init__(self, load: Callable[[], Any], every_ms: int, clock: Clock | None = None) -> None:
        if every_ms <= 0:
            raise ConfigError(f"a table can be loaded again every so often, but not every {every_ms} ms")
        self.discovery_interval_ms = every_ms
        self._load: Callable[[], Any] | None = load
        self._clock = clock or SystemClock()

    def load(self) -> TableVersion:
        """The table as it is now. Only on the driver."""
        assert self._load is not None
        return TableVersion.of(self._load(), self._clock.now_ms())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_load": None}

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        return _Versions(self)

    def open_split(self, split: Split, position: Any | None, clock: Clock) -> SplitReader:
        return _VersionReader(split.info, bool(position))


class _Versions(SplitEnumerator):
    """Loads a version each time it is asked, but for the first time: the program has loaded that one."""

    def __init__(self, source: ReloadedTableSource) -> None:
        self._source = source
        self._asked = False

    def discover(self) -> Iterable[Split]:
        if not self._asked:
            self._asked = True
            return []
        version = self._source.load()
        return [Split(f"version {version.loaded_ms}", version)]

    def snapshot(self) -> Any:
        return self._asked

    def restore(self, state: Any) -> None:
        self._asked = bool(state)


class _VersionReader(SplitReader):
    """One record."""

    def __init__(self, version: TableVersion, done: bool) -> None:
        self._version = version
        self._done = done

    def poll(self, max_rows: int) -> Batch | None:
        if self._done:
            raise EndOfSplit
        self._done = True
        return Batch.of_rows([self._version])

    def position(self) -> bool:
        return self._done
