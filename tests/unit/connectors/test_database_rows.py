"""Records to rows, changes by key, names, URLs: everything that needs no server."""

from __future__ import annotations

import datetime as dt
import pickle
from collections import namedtuple
from dataclasses import dataclass, replace
from decimal import Decimal

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest
from database_kit import NOW
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.database.address import DatabaseKind, parse_url
from penstock.connectors.database.connection import open_dialect
from penstock.connectors.database.dialect import Target
from penstock.connectors.database.names import Maker, owner_prefix, run_prefix
from penstock.connectors.database.rows import Changes, RowReader
from penstock.connectors.database.sink import DatabaseSink, Delivery
from penstock.connectors.database.statement import translate
from penstock.connectors.database.write_target import first_refused
from penstock.core.batch import Batch
from penstock.core.durations import Instant
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.row import Row, RowKind
from penstock.core.typeinfo import Types

Pair = namedtuple("Pair", ["b", "a"])


@dataclass
class Thing:
    b: str
    a: int


@pytest.mark.parametrize(
    "record",
    [
        {"b": "x", "a": 1, "c": None},
        Row(b="x", a=1),
        Row(a=1, b="x"),
        Row(1, "x"),
        Row(f0=1, f1="x"),
        Pair("x", 1),
        Thing("x", 1),
        (1, "x"),
        [1, "x"],
    ],
    ids=lambda record: type(record).__name__ + repr(record)[:12],
)
def test_records_of_all_kinds_become_tuples_in_the_order_of_the_columns(record):
    reader = RowReader(("a", "b"), {}, None)
    assert reader.read(Batch.of_rows([record, record])) == ([(1, "x")] * 2, None)
    assert reader.read(Batch.of_rows([record, (2, "y")]))[0] == [(1, "x"), (2, "y")]


def test_columns_are_read_by_name():
    columns = pa.record_batch({"b": ["x", "y"], "a": [1, None], "gone": [True, False]})
    reader = RowReader(("a", "b"), {}, "gone")
    assert reader.read(Batch.of_columns(columns)) == ([(1, "x"), (None, "y")], [True, False])
    with pytest.raises(ConnectorError, match="no column 'z'.*theirs are: b, a, gone"):
        RowReader(("z",), {}, None).read(Batch.of_columns(columns))


def test_columns_without_names_are_read_by_position():
    columns = pa.record_batch({"f0": [1], "f1": ["x"]})
    assert RowReader(("a", "b"), {}, None).read(Batch.of_columns(columns))[0] == [(1, "x")]


def test_one_column_takes_bare_values():
    assert RowReader(("a",), {}, None).read(Batch.of_rows([1, 2]))[0] == [(1,), (2,)]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"a": 1}, "lacks the column b"),
        (Row(a=1, c=2), "lacks the column"),
        ((1, 2, 3), "has 3 values, but the sink writes the 2 columns a, b"),
        ("text", "cannot take a str apart"),
    ],
)
def test_records_that_do_not_fit_are_refused_in_a_sentence(record, message):
    with pytest.raises(ConnectorError, match=message):
        RowReader(("a", "b"), {}, None).read(Batch.of_rows([record]))


def test_values_are_brought_to_what_the_driver_takes():
    moment = dt.datetime(2024, 5, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    mysql = open_dialect(parse_url("mysql://u@h/d")).adapters
    reader = RowReader(("a", "b"), mysql, None)
    read, _ = reader.read(
        Batch.of_rows([(moment, {"x": 1}), (np.int64(7), [1, 2]), (Instant(1, 5000), None)])
    )
    assert read == [
        (dt.datetime(2024, 5, 1, 10), '{"x": 1}'),  # noqa: DTZ001
        (7, "[1, 2]"),
        (dt.datetime(1970, 1, 1, 0, 0, 1, 5), None),  # noqa: DTZ001
    ]
    nanos = pa.record_batch({"a": pa.array([NOW * 10**6 + 1], pa.timestamp("ns")), "b": [1]})
    seconds = dt.datetime(2023, 11, 14, 22, 13, 20)  # noqa: DTZ001
    assert reader.read(Batch.of_columns(nanos))[0] == [(seconds, 1)]


def test_kinds_of_rows_decide_what_is_deleted():
    batch = Batch.of_rows(
        [
            Row.of_kind(kind, number, "x")
            for number, kind in enumerate(
                [RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE]
            )
        ]
    )
    assert RowReader(("a", "b"), {}, None).read(batch) == (
        [(0, "x"), (2, "x"), (3, "x")],
        [False, False, True],
    )
    by_function = RowReader(("a", "b"), {}, lambda row: row[0] == 2)
    assert by_function.read(batch)[1] == [False, True, False]


KEYED = Target("t", ("k", "v", "n"), ("k",))


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 5), st.text(max_size=1), st.integers(0, 9), st.booleans()), max_size=8
        ),
        max_size=5,
    ),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_changes_say_what_a_table_would(batches, versioned):
    """Carrying out the changes once gives what carrying out every record gives."""
    target = Target("t", ("k", "v", "n"), ("k",), "n" if versioned else None)
    changes = Changes(target, RowReader(target.columns, {}, None))
    expected: dict[int, tuple[tuple, bool]] = {}
    for batch in batches:
        records = []
        for k, v, n, deleted in batch:
            records.append(Row.of_kind(RowKind.DELETE if deleted else RowKind.INSERT, k, v, n))
            if not versioned or k not in expected or n >= expected[k][0][2]:
                expected[k] = ((k, v, n), deleted)
        changes.add(Batch.of_rows(records))
    assert len(changes) == len(expected)
    taken = changes.take()
    assert taken.rows == [row for _, (row, deleted) in sorted(expected.items()) if not deleted]
    assert taken.gone == [row for _, (row, deleted) in sorted(expected.items()) if deleted]
    assert len(changes) == 0


def test_keys_that_do_not_compare_are_sorted_all_the_same():
    changes = Changes(KEYED, RowReader(KEYED.columns, {}, None))
    changes.add(Batch.of_rows([(None, "a", 1), (3, "b", 1)]))
    assert len(changes.take()) == 2


@pytest.mark.parametrize("nan", [float("nan"), Decimal("NaN"), Decimal("sNaN"), np.float64("nan")])
def test_a_key_that_is_not_a_number_is_refused_with_its_row(nan):
    target = Target("t", ("k", "n", "v"), keys=("k", "n"))
    changes = Changes(target, RowReader(target.columns, {}, None))
    changes.add(Batch.of_rows([(1, None, nan), (2, Decimal(2), nan), (3, "x", nan)]))
    with pytest.raises(ConnectorError, match=r"table 't' has NaN in its key column 'n'.*'k': 5.*'v': 'b'"):
        changes.add(Batch.of_rows([(4, Decimal(1), "a"), (5, nan, "b")]))


def test_a_deletion_without_a_key_is_refused():
    target = Target("t", ("k",))
    changes = Changes(target, RowReader(("k",), {}, None))
    with pytest.raises(ConnectorError, match="only appended to.*set_key_columns"):
        changes.add(Batch.of_rows([Row.of_kind(RowKind.DELETE, 1)]))


@given(st.integers(1, 300), st.data())
@settings(max_examples=40, deadline=None)
def test_halving_finds_the_first_row_at_fault_in_few_tries(size, data):
    culprit = data.draw(st.integers(1, size))
    tries = []

    def attempt(count):
        tries.append(count)
        return ValueError(count) if count >= culprit else None

    found = first_refused(size, attempt)
    assert found is not None and found[0] == culprit and len(tries) <= 10
    assert first_refused(size, lambda count: None) is None


def test_names_fit_and_are_recognised():
    first = NOW // 1000  # generations of a new job count from the seconds of the clock
    mine = Maker("0123456789abcdef", first, 4095, "abcdef")
    name = mine.name(999_999_999)
    assert len(name) <= 63 and owner_prefix(name) == mine.prefix and name.startswith(mine.prefix)
    assert not mine.is_leftover(name)
    assert name.startswith(run_prefix(name)) and run_prefix(name) == f"{mine.prefix}{first}_"
    assert replace(mine, generation=first + 1).is_leftover(name)
    assert not replace(mine, generation=first + 1, owner="f" * 16).is_leftover(name)
    assert not replace(mine, generation=first - 1).is_leftover(name)
    assert not mine.is_leftover("somebody else's transaction")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("mysql://ann@db/shop", "mysql://ann@db:3306/shop"),
        ("mariadb://ann:s%40cret@db:13/shop?ssl_ca=/ca.pem", "mysql://ann@db:13/shop"),
        ("postgresql://ann:s%40cret@db/shop?sslmode=require", "postgresql://ann@db:5432/shop"),
        ("jdbc:mysql://db:3307/shop?user=ann&password=s%40cret&useSSL=false", "mysql://ann@db:3307/shop"),
        ("jdbc:postgresql://db/shop?user=ann&password=s%40cret", "postgresql://ann@db:5432/shop"),
    ],
)
def test_urls_are_understood_and_keep_the_password_to_themselves(url, text):
    address = parse_url(url)
    assert str(address) == text and address.user == "ann"
    assert address.password == ("s@cret" if "cret" in url else "")
    for shown in (str(address), repr(address), repr(open_dialect(address))):
        assert "cret" not in shown
    assert parse_url(url, "bob", "other").password == "other"


@pytest.mark.parametrize(
    "url", ["oracle://u@h/d", "mysql://u@h", "mysql://h/d", "mysql://u@h:x/d", "nothing"]
)
def test_urls_that_cannot_be_used_are_refused_with_the_way_out(url):
    with pytest.raises(ConfigError, match="write mysql://user@host:3306/database"):
        parse_url(url)


def test_a_url_that_python_cannot_split_keeps_the_password_to_itself():
    with pytest.raises(ConfigError) as raised:
        parse_url("mysql://ann:s\u2100cret@db/shop")
    assert "cret" not in str(raised.value) and raised.value.__cause__ is None


def test_options_of_a_url_go_to_the_driver():
    address = parse_url("postgresql://u@h/d?sslmode=require")
    assert address.kind is DatabaseKind.POSTGRESQL and address.options == (("sslmode", "require"),)


@pytest.mark.parametrize(
    ("sql", "translated"),
    [
        ("INSERT INTO t VALUES (?, ?)", ("INSERT INTO t VALUES (%s, %s)", 2)),
        ("UPDATE t SET a = '?' || ? WHERE b LIKE '%x'", ("UPDATE t SET a = '?' || %s WHERE b LIKE '%%x'", 1)),
        (
            'SELECT "?", `?`, ?? -- why?\n, /* ? */ ? % 2',
            ('SELECT "?", `?`, ? -- why?\n, /* ? */ %s %% 2', 1),
        ),
    ],
)
def test_question_marks_become_parameters(sql, translated):
    assert translate(sql) == translated


def builder():
    return DatabaseSink.builder().set_url("mysql://u:hush-hush@h/d").set_table("t")


def test_the_builder_chooses_by_key_and_hides_the_password():
    sink = builder().set_key_columns("k").build()
    assert repr(sink) == "DatabaseSink(mysql://u@h:3306/d, table='t', delivery=UPSERT)"
    assert sink.create_committer() is None
    appended = builder().set_columns("k").build()
    assert "TWO_PHASE" in repr(appended) and appended.create_committer() is not None
    shipped = pickle.loads(cloudpickle.dumps(sink))
    assert "hush" not in repr(shipped) + repr(sink._settings)


def test_columns_come_from_the_type_of_the_stream():
    typed = (
        builder()
        .set_key_columns("k")
        .build()
        .typed(Types.ROW_NAMED(["k", "v"], [Types.INT(), Types.STRING()]))
    )
    assert typed._target().columns == ("k", "v")
    with pytest.raises(ConfigError, match=r"does not know its columns.*set_columns\(\)"):
        builder().set_key_columns("k").build()._target()
    with pytest.raises(ConfigError, match="'k' of table 't' is not among the columns written: a"):
        builder().set_columns("a").set_key_columns("k").build()._target()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DatabaseSink.builder().build(), "needs set_url"),
        (
            lambda: builder().set_delivery(Delivery.UPSERT).build(),
            "needs set_key_columns.*TWO_PHASE or BULK_LOAD",
        ),
        (lambda: builder().only_if_newer("v").build(), r"set_key_columns\(\) is missing"),
        (lambda: builder().set_columns("50%").build().check(), "names with %"),
        (lambda: builder().set_buffer_rows(0).build(), "at least 1 row"),
    ],
)
def test_settings_that_cannot_work_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
