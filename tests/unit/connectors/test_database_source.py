"""Tables read by ranges: types, order, positions, sentences for mistakes."""

from __future__ import annotations

import datetime as dt
import itertools
import re
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from database_tables import Database, connect, read, read_with_positions, splits_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.connectors.source import EndOfSplit, Source
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.row import Row
from penstock.core.typeinfo import Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.conformance.source_suite import SourceConformance
from penstock.testing.local import local_cluster

DATABASES = ("mysql", "postgresql")


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    fixture = "mariadb_server" if request.param == "mysql" else "postgres_server"
    found = connect(request.param, request.getfixturevalue(fixture))
    yield found
    found.connection.close()


def fill(database: Database, table: str, rows: list[tuple[Any, ...]]) -> None:
    holders = ", ".join(["%s"] * len(rows[0]))
    database.run(f"INSERT INTO {table} VALUES ({holders})", rows)


class TestConformance(SourceConformance):
    """Thirty rows, four ranges, pages of seven, an order with ties and rows without a value."""

    poll_sizes = (1, 3, 1000)

    @pytest.fixture(autouse=True)
    def make_table(self, database: Database) -> Iterator[None]:
        with database.table("id INT PRIMARY KEY, grade INT, name VARCHAR(10)") as table:
            fill(database, table, [(i, None if i % 10 == 9 else i % 4, f"n{i}") for i in range(30)])
            self.source = (
                database.source(table).set_partition_column("grade").set_ranges(4).set_page_rows(7).build()
            )
            yield

    def make_source(self, directory: Path) -> Source:
        return self.source

    def expected(self) -> list[Any]:
        rows = [(i, None if i % 10 == 9 else i % 4, f"n{i}") for i in range(30)]
        ordered = [row for grade in (0, 1, 2, 3, None) for row in rows if row[1] == grade]
        return Row.many(["id", "grade", "name"], ordered)


DAY = dt.date(2024, 2, 28)
NOON = dt.datetime(2024, 2, 28, 12, 0, 0, 250_000, dt.UTC).replace(tzinfo=None)
LEADING: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "whole": ("BIGINT", st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3)),
    "decimal": ("DECIMAL(9, 2)", st.integers(-999, 999).map(lambda cents: Decimal(cents) / 100)),
    "date": ("DATE", st.integers(0, 400).map(lambda days: DAY + dt.timedelta(days))),
    "timestamp": ("TIMESTAMP(6)", st.integers(0, 10**10).map(lambda n: NOON + dt.timedelta(microseconds=n))),
    "text": ("VARCHAR(5)", st.text("abXY z", max_size=5)),
}


@pytest.mark.parametrize("kind", LEADING)
def test_replay_from_any_position_gives_the_same_rows(database: Database, kind: str) -> None:
    declared, values = LEADING[kind]
    table_of = f"lead {declared} NULL, a INT NOT NULL, b VARCHAR(3) NOT NULL, PRIMARY KEY (a, b)"
    identities = st.tuples(st.integers(0, 3), st.text("pqr", min_size=1, max_size=2))
    cases = st.dictionaries(identities, values | st.none(), max_size=9)

    with database.table(table_of) as table:

        @settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
        @given(cases, st.integers(1, 4), st.integers(1, 5), st.integers(1, 6))
        def replays(rows: dict[Any, Any], ranges: int, page: int, poll: int) -> None:
            database.run(f"DELETE FROM {table}")
            written = [(lead, *identity) for identity, lead in rows.items()]
            if written:
                fill(database, table, written)
            builder = database.source(table).set_partition_column("lead").set_page_rows(page)
            source = builder.set_ranges(1 if kind == "text" else ranges).build()
            delivered = []
            for split in splits_of(source):
                whole = read_with_positions(source, split, size=poll)
                delivered += [row for row, _ in whole]
                for last, (_, position) in enumerate(whole):
                    if last + 1 == len(whole) or whole[last + 1][1] != position:
                        assert read(source, split, position) == [row for row, _ in whole[last + 1 :]]
            assert sorted(delivered, key=repr) == sorted(written, key=repr)

        replays()


ALL_TYPES = {
    "mysql": [
        ("TINYINT", 1, Types.BYTE(), 1),
        ("TINYINT(1)", 7, Types.BOOLEAN(), True),
        ("TINYINT UNSIGNED", 255, Types.SHORT(), 255),
        ("SMALLINT UNSIGNED", 65535, Types.INT(), 65535),
        ("MEDIUMINT UNSIGNED", 2**24 - 1, Types.INT(), 2**24 - 1),
        ("INT", -5, Types.INT(), -5),
        ("INT UNSIGNED", 2**32 - 1, Types.LONG(), 2**32 - 1),
        ("BIGINT UNSIGNED", 2**63 - 1, Types.LONG(), 2**63 - 1),
        ("FLOAT", 16777213, Types.FLOAT(), 16777213.0),
        ("DOUBLE", 0.1, Types.DOUBLE(), 0.1),
        ("DECIMAL(12,3)", "1.234", Types.BIG_DEC(), Decimal("1.234")),
        ("VARCHAR(20)", "h%s", Types.STRING(), "h%s"),
        ("ENUM('x','y')", "y", Types.STRING(), "y"),
        ("JSON", '{"a": 1}', Types.STRING(), '{"a": 1}'),
        ("BLOB", b"\x00\xff", Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
        ("DATE", DAY, Types.SQL_DATE(), DAY),
        ("DATETIME(6)", NOON, Types.SQL_TIMESTAMP(), NOON),
        ("TIME(3)", "-30:00:01.500", Types.STRING(), "-30:00:01.500"),
        ("YEAR", 2024, Types.SHORT(), 2024),
        ("BIT(1)", 1, Types.BOOLEAN(), True),
        ("BIT(12)", 4095, Types.LONG(), 4095),
    ],
    "postgresql": [
        ("SMALLINT", 1, Types.SHORT(), 1),
        ("INTEGER", 2, Types.INT(), 2),
        ("BIGINT", 2**63 - 1, Types.LONG(), 2**63 - 1),
        ("BOOLEAN", True, Types.BOOLEAN(), True),
        ("REAL", 1.5, Types.FLOAT(), 1.5),
        ("DOUBLE PRECISION", 0.1, Types.DOUBLE(), 0.1),
        ("NUMERIC(12,3)", "1.234", Types.BIG_DEC(), Decimal("1.234")),
        ("NUMERIC", "1.20", Types.STRING(), "1.20"),
        ("VARCHAR(20)", "h%s", Types.STRING(), "h%s"),
        ("BYTEA", b"\x00\xff", Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
        ("DATE", DAY, Types.SQL_DATE(), DAY),
        ("TIME", dt.time(1, 2, 3), Types.SQL_TIME(), dt.time(1, 2, 3)),
        ("TIMESTAMP(3)", NOON, Types.SQL_TIMESTAMP(), NOON),
        ("TIMESTAMPTZ", "2024-02-28 14:00:00.25+02", Types.SQL_TIMESTAMP(), NOON),
        ("JSONB", '{"a": 1}', Types.STRING(), '{"a": 1}'),
        ("UUID", "123e4567-e89b-12d3-a456-426614174000", Types.STRING(), None),
        ("INT[]", [1, 2], Types.STRING(), "{1,2}"),
    ],
}


def test_types_come_from_the_database(database: Database) -> None:
    types = ALL_TYPES[database.scheme]
    columns = ", ".join(f"c{i} {declared} NULL" for i, (declared, *_) in enumerate(types))
    with database.table(f"id INT PRIMARY KEY, {columns}") as table:
        fill(database, table, [(1, *(written for _, written, *_ in types)), (2, *([None] * len(types)))])
        source = database.source(table).build()
        assert source.produced_type().field_types == [Types.INT(), *(typed for _, _, typed, _ in types)]
        [split] = splits_of(source)
        first, second = read(source, split)
        for value, (declared, written, _, expected) in zip(first[1:], types, strict=True):
            assert value == (written if expected is None else expected), declared
        assert second == (2, *([None] * len(types)))


def test_batches_are_columns_and_no_larger_than_asked(database: Database) -> None:
    with database.table("id BIGINT PRIMARY KEY, name VARCHAR(10)") as table:
        fill(database, table, [(i, f"n{i}") for i in range(25)])
        source = database.source(table).set_page_rows(10).set_columns("name").build()
        [split] = splits_of(source)
        reader = source.open_split(split, None, ManualClock(0))
        sizes = [len(batch) for batch in iter(lambda: _poll(reader, 8), None)]
        assert sizes == [8, 2, 8, 2, 5]
        reader.close()
        assert source.shape().columns[0].arrow == pa.string()


def _poll(reader: Any, size: int) -> Any:
    try:
        return reader.poll(size)
    except EndOfSplit:
        return None


def test_a_range_sees_one_state_of_the_table(database: Database) -> None:
    with database.table("id INT PRIMARY KEY, name VARCHAR(10)") as table:
        fill(database, table, [(i, "old") for i in range(10)])
        source = database.source(table).set_page_rows(3).build()
        [split] = splits_of(source)
        reader = source.open_split(split, None, ManualClock(0))
        first = reader.poll(100).to_rows()
        database.run(f"UPDATE {table} SET name = 'new'")
        database.run(f"DELETE FROM {table} WHERE id = 5")
        rest = [row for batch in iter(lambda: _poll(reader, 100), None) for row in batch.to_rows()]
        reader.close()
        assert [tuple(row) for row in [*first, *rest]] == [(i, "old") for i in range(10)]


def test_bounds_and_conditions(database: Database) -> None:
    with database.table("id INT PRIMARY KEY, name VARCHAR(10)") as table:
        fill(database, table, [(i, f"{i % 3}%") for i in range(30)])
        builder = database.source(table).set_bounds(5, 20).set_condition("name LIKE '1%'").set_ranges(3)
        source = builder.build()
        splits = splits_of(source)
        assert len(splits) == 3
        found = list(itertools.chain.from_iterable(read(source, split) for split in splits))
        assert [row[0] for row in found] == [7, 10, 13, 16, 19]


def test_decimals_of_many_digits_are_divided_exactly(database: Database) -> None:
    huge = [Decimal(f"1{'0' * 30}{i}.99") for i in range(8)]
    with database.table("n DECIMAL(38, 2) PRIMARY KEY") as table:
        fill(database, table, [(value,) for value in huge])
        source = database.source(table).set_ranges(3).build()
        assert [row[0] for split in splits_of(source) for row in read(source, split)] == huge
        between = database.source(table).set_bounds(*(Decimal(f"{huge[i]}1") for i in (1, 3)))
        source = between.set_ranges(2).build()
        assert [row[0] for split in splits_of(source) for row in read(source, split)] == huge[2:4]


def test_keys_that_are_read_as_text_have_the_order_of_their_own_type(postgres_server: Any) -> None:
    database = connect("postgresql", postgres_server)
    with database.table("id UUID, n NUMERIC, PRIMARY KEY (n, id)") as table:
        rows = [(str(uuid.UUID(int=10 - i % 3)), str(i)) for i in range(12)]
        fill(database, table, [(identity, Decimal(number)) for identity, number in rows])
        for first in ("n", "id"):
            source = database.source(table).set_partition_column(first).set_page_rows(5).build()
            found = [row for split in splits_of(source) for row in read(source, split)]
            assert found == (rows if first == "n" else sorted(rows, key=lambda row: (row[0], int(row[1]))))
    database.connection.close()


def test_a_row_without_a_number_is_named(postgres_server: Any) -> None:
    database = connect("postgresql", postgres_server)
    with database.table("id INT PRIMARY KEY, n NUMERIC(9, 2), free NUMERIC") as table:
        fill(database, table, [(i, i, i) for i in range(9)] + [(70, "NaN", "Infinity")])
        ranged = database.source(table).set_partition_column("n").set_ranges(2)
        with pytest.raises(ConnectorError, match="order of 'n', and that is NaN in the row n=NaN, id=70"):
            splits_of(ranged.build())
        polled = database.source(table).poll("free", settle="0 s").build()
        reader = polled.open_split(splits_of(polled)[0], None, ManualClock(0))
        with pytest.raises(ConnectorError, match="that is Infinity in the row free=Infinity, id=70"):
            reader.poll(10)
        reader.close()
        source = ranged.set_columns("id").set_condition("n <> 'NaN'").build()
        assert [row[0] for split in splits_of(source) for row in read(source, split)] == list(range(9))
        with pytest.raises(ConfigError, match="NaN.*is no bound for column 'n'"):
            splits_of(database.source(table).set_partition_column("n").set_bounds(0, Decimal("NaN")).build())
    database.connection.close()


def test_a_view_is_read_by_the_columns_that_are_named(database: Database) -> None:
    with database.table("id INT PRIMARY KEY, name VARCHAR(10)") as table:
        fill(database, table, [(i, f"n{i}") for i in range(7)])
        database.run(f"CREATE VIEW {table}_view AS SELECT id, name FROM {table}")
        try:
            builder = database.source(f"{table}_view").set_key_columns("id").set_ranges(2).set_page_rows(2)
            source = builder.build()
            found = [row[0] for split in splits_of(source) for row in read(source, split)]
            assert found == list(range(7))
        finally:
            database.run(f"DROP VIEW {table}_view")


def test_an_empty_table_has_no_splits(database: Database) -> None:
    with database.table("id INT PRIMARY KEY") as table:
        assert splits_of(database.source(table).build()) == []


def test_mistakes_are_sentences(database: Database) -> None:
    with database.table("id INT PRIMARY KEY, x DOUBLE PRECISION, name VARCHAR(9)") as table:

        def message(builder: Any) -> str:
            with pytest.raises((ConnectorError, ConfigError)) as caught:
                splits_of(builder.build())
            assert database.server.password not in str(caught.value)
            return str(caught.value)

        source = database.source
        assert "no table 'nowhere'" in message(source("nowhere"))
        assert "no column z; it has id, x, name" in message(source(table).set_columns("id", "z"))
        assert "no column z" in message(source(table).set_partition_column("z"))
        assert "cannot be read in the order of 'x'" in message(source(table).set_partition_column("x"))
        assert "may be NULL" in message(source(table).set_key_columns("name"))
        assert "cannot be divided" in message(source(table).set_partition_column("name").set_ranges(2))
        assert "is no bound" in message(source(table).set_bounds("a", "b"))
        assert "password" in message(source(table).set_password("wrong-one"))
        with pytest.raises(ConfigError, match="set_url"):
            database.source("").build()
        with pytest.raises(ConfigError, match="by ranges or by polling"):
            source(table).set_ranges(2).poll("id").build()
    with database.table("a INT") as table:
        assert "no primary key" in message(database.source(table))


def test_a_position_of_another_key_is_refused(database: Database) -> None:
    with database.table("id INT PRIMARY KEY, grade INT NOT NULL") as table:
        fill(database, table, [(1, 1), (2, 1)])
        [split] = splits_of(database.source(table).build())
        source = database.source(table).set_partition_column("grade").build()
        with pytest.raises(ConnectorError, match="in the order of grade, id.* key of 1 columns"):
            source.open_split(split, (1,), ManualClock(0))


def test_the_password_is_never_shown(database: Database) -> None:
    source = database.source("anything").build()
    assert database.server.password not in repr(source) + str(vars(source).values())
    assert "table='anything'" in repr(source)


def test_the_sources_of_the_guide(database: Database) -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "guides" / "databases.md"
    text = page.read_text(encoding="utf-8").split("## Reading")[1]
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    columns = "id INT PRIMARY KEY, country VARCHAR(2), amount INT, created_at TIMESTAMP NULL, status TEXT"
    with database.table(columns) as table:
        rows = [(i, "de", i, NOON + dt.timedelta(days=i), "draft" if i == 4 else "paid") for i in range(9)]
        fill(database, table, rows)
        guide: dict[str, Any] = {}
        code = re.sub(r'set_table\("\w+"\)', f'set_table("{table}")', code)
        exec(compile(code, str(page), "exec"), guide)
        with local_cluster(slots=2):
            env = StreamExecutionEnvironment.get_execution_environment()
            stream = guide["read_orders"](env, database.url, database.server.password)
            found = sorted(row.id for row in stream.execute_and_collect())
            guide["watch_clicks"](env, database.url, database.server.password).print()
            assert not env.graph.nodes[0].source.bounded
    assert found == [0, 1, 2, 3, 5, 6, 7, 8]
