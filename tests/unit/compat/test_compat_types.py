"""Rows, tuples, declared types and ``print()``: functions and people see what they see in PyFlink.

The expectations were read off PyFlink 2.3.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from compat_rig import environment, results, stream
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import Instant, Row, RowKind, Types
from penstock.core.conversion import convert_all, converter
from penstock.core.errors import JobFailedError, TypeMismatchError
from penstock.core.typeinfo import ExternalTypeInfo, TypeInformation
from penstock.datastream import OutputTag, ProcessFunction
from penstock.testing.local import local_cluster

PAIR = Types.ROW([Types.INT(), Types.STRING()])
NAMED = Types.ROW_NAMED(["id", "s"], [Types.INT(), Types.STRING()])
MOMENT = dt.datetime(2021, 1, 9, 12, 0, 0, 123000)  # noqa: DTZ001


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=2):
        yield


# --- what functions see -------------------------------------------------------------------------

SEEN: list[tuple[TypeInformation, Any, str]] = [
    (Types.FLOAT(), 0.1, "0.10000000149011612"),
    (Types.DOUBLE(), 0.1, "0.1"),
    (Types.TUPLE([Types.INT(), Types.STRING()]), [1, "a"], "(1, 'a')"),
    (PAIR, (1, "a"), "Row(f0=1, f1='a')"),
    (PAIR, [1, "a"], "Row(f0=1, f1='a')"),
    (PAIR, Row(1, None), "Row(f0=1, f1=None)"),
    (NAMED, (1, "a"), "Row(id=1, s='a')"),
    (NAMED, Row(a=1, b="a"), "Row(id=1, s='a')"),
    (NAMED, {"s": "a", "id": 1}, "Row(id=1, s='a')"),
    (Types.ROW([Types.INT(), PAIR]), (1, Row(2, "b")), "Row(f0=1, f1=Row(f0=2, f1='b'))"),
    (Types.TUPLE([Types.INT(), PAIR]), (1, (2, "b")), "(1, Row(f0=2, f1='b'))"),
    (Types.ROW([Types.FLOAT(), Types.BOOLEAN()]), (0.1, True), "Row(f0=0.10000000149011612, f1=True)"),
    (Types.ROW([Types.PRIMITIVE_ARRAY(Types.BYTE())]), (b"fl",), "Row(f0=b'fl')"),
    (Types.LIST(PAIR), [(1, "a")], "[Row(f0=1, f1='a')]"),
    (Types.MAP(Types.STRING(), Types.FLOAT()), {"a": 0.5}, "{'a': 0.5}"),
    (ExternalTypeInfo(NAMED), (1, "a"), "Row(id=1, s='a')"),
]


@pytest.mark.parametrize(("declared", "value", "seen"), SEEN)
def test_the_next_function_sees_values_of_the_declared_type(declared: Any, value: Any, seen: str) -> None:
    assert results(stream([value], declared).map(repr)) == [seen]
    assert results(stream([1]).map(lambda _: value, declared).map(repr)) == [seen]


def test_a_list_of_types_means_a_row() -> None:
    fields = [Types.INT(), Types.STRING()]
    assert results(stream([(1, "a")], fields)) == [Row(f0=1, f1="a")]
    assert results(stream([1]).flat_map(lambda n: [(n, "a")], fields)) == [Row(f0=1, f1="a")]


class Sides(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield OutputTag("pairs"), (value, "a")
        yield value


def test_a_side_output_has_the_type_of_its_tag_and_the_main_output_its_own(capsys: Any) -> None:
    env = environment()
    main = env.from_collection([1]).process(Sides(), Types.FLOAT())
    side = main.get_side_output(OutputTag("pairs", PAIR))
    assert (main.get_type(), side.get_type()) == (Types.FLOAT(), PAIR)
    side.print()
    main.print()
    env.execute()
    assert sorted(capsys.readouterr().out.splitlines()) == ["+I[1,a]", "1.0"]


def test_a_projection_keeps_types_and_names() -> None:
    projected = stream([(1, "a")], NAMED).project(1)
    assert projected.get_type() == Types.ROW_NAMED(["s"], [Types.STRING()])
    assert results(projected) == [Row(s="a")]


def test_without_a_type_values_pass_as_they_are() -> None:
    values = [(1, "a"), Row(1), [1], None, {"a": 1}, 2**70]
    assert results(stream(values).map(lambda value: value)) == values


@pytest.mark.parametrize(
    ("declared", "value", "complaint"),
    [
        (Types.INT(), 2**31, "32 bits.*2147483648"),
        (Types.SHORT(), 70000, "16 bits"),
        (Types.BYTE(), -129, "8 bits"),
        (Types.INT(), "x", "'x', a str"),
        (Types.DOUBLE(), "x", "'x', a str"),
        (PAIR, (1, "a", 2), "2 fields, but a value has 3"),
        (PAIR, 5, "5, a int"),
        (Types.TUPLE([Types.INT()]), {"a": 1}, "a dict"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_where_it_arises(
    declared: Any, value: Any, complaint: str
) -> None:
    with pytest.raises(JobFailedError, match=complaint) as error:
        results(stream([1]).map(lambda _: value, declared).name("wrong"))
    assert "'wrong'" in str(error.value)
    with pytest.raises(TypeMismatchError, match=complaint):
        stream([value], declared)


def test_missing_values_stay_missing() -> None:
    rows = convert_all([Row(None, None), None, Row(3, "c")], PAIR)
    assert list(rows) == [Row(f0=None, f1=None), None, Row(f0=3, f1="c")]
    assert convert_all([None], Types.FLOAT()) == [None]


def test_the_change_kind_of_a_row_survives() -> None:
    rows = [Row.of_kind(RowKind.DELETE, 1, "a"), (2, "b")]
    assert [row.get_row_kind() for row in convert_all(rows, NAMED)] == [RowKind.DELETE, RowKind.INSERT]


@pytest.mark.parametrize("kind", [Types.STRING(), Types.LONG(), Types.BIG_INT(), Types.SQL_DATE(), None])
def test_types_whose_values_stay_as_they_are_cost_nothing(kind: Any) -> None:
    assert converter(kind) is None


@given(st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.floats(width=32, allow_nan=False), st.text())))
def test_converting_twice_is_converting_once(values: list[Any]) -> None:
    kind = Types.ROW([Types.INT(), Types.FLOAT(), Types.STRING()])
    once = convert_all(values, kind)
    assert [tuple(row) for row in once] == values
    assert list(convert_all(once, kind)) == list(once)


# --- rows ---------------------------------------------------------------------------------------


def test_rows_look_and_compare_as_pyflinks() -> None:
    assert repr(Row(id=1, s="a")) == "Row(id=1, s='a')"
    assert repr(Row("a", 1)) == "<Row('a', 1)>"
    assert Row(id=1) == Row(id=1) != Row(1)
    assert Row("id", "s")(1, "a") == Row(id=1, s="a")
    row = Row(id=1, s="a")
    row["s"] = "b"
    assert (row[1], row.s, row.as_dict(), len(row), "b" in row) == ("b", "b", {"id": 1, "s": "b"}, 2, True)
    assert Row(7, 8).f1 == 8, "fields without names answer to f0, f1, ..."
    with pytest.raises(AttributeError, match="no field 'f2'"):
        _ = Row(7, 8).f2


# --- print() ------------------------------------------------------------------------------------

PRINTED: list[tuple[Any, Any, str]] = [
    (Types.INT(), 1, "1"),
    (Types.BOOLEAN(), True, "true"),
    (Types.FLOAT(), 1e10, "1.0E10"),
    (Types.DOUBLE(), 1e-5, "1.0E-5"),
    (Types.FLOAT(), float("inf"), "Infinity"),
    (Types.TUPLE([Types.INT(), Types.STRING()]), (1, "abc"), "(1,abc)"),
    (Types.TUPLE([Types.INT(), Types.TUPLE([Types.STRING()])]), (1, ("b",)), "(1,(b))"),
    (Types.TUPLE([Types.INT(), PAIR]), (1, Row(2, "b")), "(1,+I[2, b])"),
    (PAIR, (1, "a"), "+I[1,a]"),
    (PAIR, (2, None), "+I[2,None]"),
    (NAMED, Row(id=1, s="a"), "+I[1,a]"),
    (Types.ROW([Types.INT(), PAIR]), (1, Row(2, "b")), "+I[1,Row(f0=2, f1='b')]"),
    (Types.ROW([Types.PRIMITIVE_ARRAY(Types.BYTE())]), (b"fl",), "+I[b'fl']"),
    (Types.ROW([Types.SQL_TIMESTAMP()]), (MOMENT,), "+I[2021-01-09 12:00:00.123000]"),
    (Types.ROW([Types.SQL_DATE()]), (MOMENT.date(),), "+I[2021-01-09]"),
    (Types.ROW([Types.BIG_DEC()]), (Decimal("1.50"),), "+I[1.50]"),
    (Types.ROW([Types.INSTANT()]), (Instant(1, 500_000_000),), "+I[Instant<1, 500000000>]"),
    (Types.MAP(Types.STRING(), Types.INT()), {"a": 1}, "{a=1}"),
    (None, (1, "a"), "(1, 'a')"),
    (None, Row(1, "a"), "<Row(1, 'a')>"),
    (None, None, "None"),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "value", "line"), PRINTED)
def test_print_looks_as_pyflinks(declared: Any, value: Any, line: str, capsys: Any) -> None:
    env = environment()
    env.from_collection([value], declared).print()
    env.execute()
    assert capsys.readouterr().out == f"{line}\n"


def test_print_names_the_subtask_if_there_are_several(capsys: Any) -> None:
    env = environment(2)
    env.from_collection([1, 2]).map(str).print()
    env.execute()
    assert sorted(capsys.readouterr().out.splitlines()) == ["1> 1", "2> 2"]


def test_print_shows_its_identifier(capsys: Any) -> None:
    env = environment()
    env.from_collection([1]).print("mine")
    env.execute()
    several = environment(2)
    several.from_collection([1, 2]).map(str).print("mine")
    several.execute()
    assert sorted(capsys.readouterr().out.splitlines()) == ["mine:1> 1", "mine:2> 2", "mine> 1"]


def test_print_of_a_keyed_stream_leaves_the_identifier_out(capsys: Any) -> None:
    env = environment()
    env.from_collection([1]).key_by(lambda n: n).print("mine")
    env.execute()
    assert capsys.readouterr().out == "1\n"
