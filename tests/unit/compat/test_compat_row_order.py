"""A row made with names goes into a declared ROW by its names, as PyFlink 2.3 encodes it."""

import pytest

from penstock.common import Row, RowKind, Types
from penstock.core.conversion import convert_all
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.local import local_cluster

TWO_NUMBERS = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LONG()])
MIXED = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])


@pytest.mark.parametrize(
    ("declared", "given", "wanted"),
    [
        (TWO_NUMBERS, Row(b=2, a=1), Row(a=1, b=2)),
        (MIXED, Row(b="x", a=1), Row(a=1, b="x")),
        (TWO_NUMBERS, Row(z=0, b=2, y=0, a=1), Row(a=1, b=2)),
        (Types.ROW_NAMED(["r"], [MIXED]), Row(r=Row(b="x", a=1)), Row(r=Row(a=1, b="x"))),
        (Types.LIST(MIXED), [Row(b="x", a=1)], [Row(a=1, b="x")]),
        (Types.MAP(Types.STRING(), MIXED), {"k": Row(b="x", a=1)}, {"k": Row(a=1, b="x")}),
        (TWO_NUMBERS, Row(a=1, b=2), Row(a=1, b=2)),
        (TWO_NUMBERS, Row(1, 2), Row(a=1, b=2)),
        (TWO_NUMBERS, Row(c=1, d=2), Row(a=1, b=2)),
        (Types.ROW([Types.INT(), Types.INT()]), Row(b=1, a=2), Row(f0=1, f1=2)),
    ],
)
def test_names_decide_where_values_go(declared, given, wanted):
    assert convert_all([given], declared) == [wanted]


def test_rows_of_several_shapes_keep_their_places_and_kinds():
    given = [Row(a=1, b=2), None, Row.of_kind(RowKind.DELETE, b=2, a=1), (1, 2), {"b": 2, "a": 1}, Row(1, 2)]
    found = convert_all(given, TWO_NUMBERS)
    assert found[1] is None and {tuple(row) for row in found if row is not None} == {(1, 2)}
    assert [row.get_row_kind() for row in found if row is not None][1] is RowKind.DELETE
    assert tuple(given[2]) == (2, 1), "the function's own row is not touched"


@pytest.mark.parametrize("names", [("f0", "f1"), ("a", "b")])
def test_rows_alone_go_by_their_names_too(names):
    """Rows of the declared width take a shorter way, which must not take another order for this one."""
    first, second = names
    declared = Types.ROW_NAMED(list(names), [Types.LONG(), Types.LONG()])
    turned = Row(**{second: 2, first: 1})
    turned.set_row_kind(RowKind.DELETE)
    found = convert_all([Row(1, 2), turned, Row(c=1, d=2), Row(**{first: 1, second: 2})], declared)
    assert [(row.field_names(), tuple(row)) for row in found] == [(names, (1, 2))] * 4
    assert [row.get_row_kind() for row in found].count(RowKind.DELETE) == 1
    assert tuple(turned) == (2, 1), "the function's own row is not touched"


def test_a_steps_rows_arrive_by_name():
    env = StreamExecutionEnvironment.get_execution_environment()
    named = env.from_collection([1, 5]).map(lambda v: Row(b=v + 1, a=v), output_type=TWO_NUMBERS)
    with local_cluster(slots=1):
        assert list(named.map(lambda row: (row[0], row.b)).execute_and_collect()) == [(1, 2), (5, 6)]
