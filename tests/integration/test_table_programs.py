"""Programs of ``pyflink.table`` with another name in their imports: what they print and write."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import penstock.table as table_api
from penstock.common import Row, Types
from penstock.core.errors import ConfigError
from penstock.datastream import StreamExecutionEnvironment
from penstock.table import (
    DataTypes,
    EnvironmentSettings,
    ResultKind,
    ScalarFunction,
    Schema,
    StreamTableEnvironment,
    Table,
    TableEnvironment,
)
from penstock.table.expressions import col, lit
from penstock.table.udf import udaf, udf, udtf
from penstock.testing.local import local_cluster


@pytest.fixture(autouse=True)
def _cluster() -> Iterator[None]:
    with local_cluster(slots=1):
        yield


def streams() -> StreamTableEnvironment:
    return StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment())


def sorted_rows(table: Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in table.execute().collect())


MIXED = """
    from pyflink.common import Types
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.table import DataTypes, Schema, StreamTableEnvironment, TableDescriptor
    from pyflink.table.expressions import col
    from pyflink.table.udf import udf

    env = StreamExecutionEnvironment.get_execution_environment()
    t_env = StreamTableEnvironment.create(stream_execution_environment=env)
    schema = Schema.new_builder().column("id", DataTypes.BIGINT()).column("data", DataTypes.STRING()).build()
    t_env.create_temporary_table(
        "source",
        TableDescriptor.for_connector("datagen").schema(schema).option("number-of-rows", "3")
        .option("fields.id.kind", "sequence").option("fields.id.start", "1").option("fields.id.end", "9")
        .option("fields.data.length", "7").build(),
    )
    sink = Schema.new_builder().column("a", DataTypes.BIGINT()).build()
    t_env.create_temporary_table("sink", TableDescriptor.for_connector("print").schema(sink).build())

    @udf(result_type=DataTypes.BIGINT())
    def length(data):
        return len(data)

    table = t_env.from_path("source").select(col("id"), length(col("data")))
    ds = t_env.to_data_stream(table).map(lambda i: i[0] + i[1], output_type=Types.LONG())
    table = t_env.from_data_stream(ds, Schema.new_builder().column("f0", DataTypes.BIGINT()).build())
    table.execute_insert("sink").wait()
"""

WORDS = """
    from pyflink.common import Types
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.table import StreamTableEnvironment, DataTypes, Schema, TableDescriptor

    words = ["flink", "window", "timer", "state"]
    env = StreamExecutionEnvironment.get_execution_environment()
    t_env = StreamTableEnvironment.create(stream_execution_environment=env)
    t_env.create_temporary_table(
        "source",
        TableDescriptor.for_connector("datagen")
        .schema(Schema.new_builder().column("word_id", DataTypes.INT()).build())
        .option("fields.word_id.kind", "random").option("fields.word_id.min", "0")
        .option("fields.word_id.max", "3").option("rows-per-second", "1000")
        .option("number-of-rows", "20").build(),
    )
    ds = t_env.to_data_stream(t_env.from_path("source"))
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    ds = ds.map(lambda r: words[r[0]]).map(lambda i: (i, 1), output_type=pair)
    ds.key_by(lambda i: i[0]).reduce(lambda i, j: (i[0], i[1] + j[1])).print()
    env.execute()
"""


def run(program: str) -> None:
    exec(textwrap.dedent(program).replace("pyflink", "penstock"), {"__name__": "__main__"})


def test_a_program_mixes_streams_and_tables(capsys: pytest.CaptureFixture[str]) -> None:
    run(MIXED)
    assert sorted(capsys.readouterr().out.split("\n"))[1:] == ["+I[10]", "+I[8]", "+I[9]"]


def test_a_stream_begins_with_a_generated_table(capsys: pytest.CaptureFixture[str]) -> None:
    run(WORDS)
    lines = capsys.readouterr().out.split()
    counts = {line.strip("()").split(",")[0]: int(line.strip("()").split(",")[1]) for line in lines}
    assert len(lines) == 20 and sum(counts.values()) == 20


def test_statements_are_executed(tmp_path: Path) -> None:
    t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made = t_env.execute_sql(
        f"CREATE TABLE f (id BIGINT, name STRING) WITH ('connector' = 'filesystem', 'path' = "
        f"'{tmp_path}', 'format' = 'csv')"
    )
    assert made.get_result_kind() is ResultKind.SUCCESS
    t_env.execute_sql("INSERT INTO f VALUES (1, 'a'), (2, 'b')").wait()
    assert sorted_rows(t_env.sql_query("SELECT id + 1 AS n, name FROM f")) == [(2, "a"), (3, "b")]
    assert t_env.list_tables() == ["f"]


def test_a_result_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    t_env = TableEnvironment.create(EnvironmentSettings.new_instance().in_batch_mode().build())
    t_env.from_elements([(1, "Hi"), (2, None)], ["id", "data"]).execute().print()
    assert capsys.readouterr().out.splitlines() == [
        "+--------------+--------------+",
        "|           id |         data |",
        "+--------------+--------------+",
        "|            1 |           Hi |",
        "|            2 |         NULL |",
        "+--------------+--------------+",
        "2 rows",
    ]


def test_tables_are_selected_and_filtered() -> None:
    t_env = streams()
    fields = DataTypes.ROW(
        [DataTypes.FIELD("id", DataTypes.INT()), DataTypes.FIELD("data", DataTypes.STRING())]
    )
    table = t_env.from_elements([(1, "a"), (2, "b"), (3, "c")], fields)
    found = table.filter(col("id") > 1).select(col("data").upper_case, lit(7).alias("seven")).alias("d")
    assert found.get_schema().names == ["d", "seven"]
    assert sorted_rows(found) == [("B", 7), ("C", 7)]
    found = (
        table.add_columns((col("id") * 2).alias("twice"))
        .drop_columns(col("data"))
        .rename_columns(col("id").alias("n"))
    )
    assert sorted_rows(found.union_all(found)) == [(1, 2), (1, 2), (2, 4), (2, 4), (3, 6), (3, 6)]
    t_env.create_temporary_view("t", table)
    assert list(t_env.sql_query("SELECT id FROM t WHERE data = 'c'").to_pandas()["id"]) == [3]
    assert list(t_env.sql_query(f"SELECT id FROM {table} WHERE id = 2").to_pandas()["id"]) == [2]


class Suffix(ScalarFunction):
    def open(self, function_context: object) -> None:
        self.text = "!"

    def eval(self, word: str) -> str:
        return word + self.text


def test_functions_of_rows_and_of_series() -> None:
    t_env = streams()
    t_env.create_temporary_function("shout", udf(Suffix(), result_type="STRING"))

    @udf(result_type=DataTypes.BIGINT(), func_type="pandas")
    def add(i: pd.Series, j: pd.Series) -> pd.Series:
        return i + j

    t_env.create_temporary_system_function("add", add)
    t_env.create_temporary_view("t", t_env.from_pandas(pd.DataFrame({"w": ["a", "b"], "n": [1, 2]})))
    assert sorted_rows(t_env.sql_query("SELECT shout(w) AS w, add(n, 10) AS n FROM t")) == [
        ("a!", 11),
        ("b!", 12),
    ]
    assert t_env.list_user_defined_functions() == ["add", "shout"]


def test_streams_become_tables_by_their_types() -> None:
    t_env = streams()
    env = t_env._env
    rows = env.from_collection(
        [Row(1, "a"), Row(2, "b")], Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    )
    t_env.create_temporary_view("named", t_env.from_data_stream(rows))
    assert sorted_rows(t_env.sql_query("SELECT name, id FROM named")) == [("a", 1), ("b", 2)]
    numbers = env.from_collection([3, 4], Types.LONG())
    assert sorted_rows(t_env.from_data_stream(numbers)) == [(3,), (4,)]
    pairs = env.from_collection([(1, "x")], Types.TUPLE([Types.INT(), Types.STRING()]))
    assert sorted_rows(t_env.from_data_stream(pairs)) == [(1, "x")]
    with pytest.raises(ConfigError, match="the stream has no type"):
        t_env.from_data_stream(env.from_collection([1]))


def test_a_stream_brings_its_event_time() -> None:
    t_env = streams()
    kind = Types.ROW_NAMED(["n", "ts"], [Types.LONG(), Types.LONG()])
    rows = t_env._env.from_collection([Row(1, 100), Row(2, 900), Row(3, 1_500)], kind)
    schema = (
        Schema.new_builder()
        .column("n", DataTypes.BIGINT())
        .column("ts", DataTypes.TIMESTAMP(3))
        .watermark("ts", "ts - INTERVAL '1' SECOND")
        .build()
    )
    t_env.create_temporary_view("t", rows, schema)
    query = (
        "SELECT SUM(n) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)) "
        "GROUP BY window_start, window_end"
    )
    assert sorted_rows(t_env.sql_query(query)) == [(3,), (3,)]


def test_a_statement_set_is_one_job(capsys: pytest.CaptureFixture[str]) -> None:
    t_env = streams()
    t_env.execute_sql("CREATE TABLE p (n BIGINT) WITH ('connector' = 'print')")
    both = t_env.create_statement_set().add_insert_sql("INSERT INTO p VALUES (1)")
    both.add_insert("p", t_env.sql_query("SELECT n + 1 AS n FROM (VALUES (1)) AS t(n)"))
    both.execute().wait()
    assert sorted(capsys.readouterr().out.split()) == ["+I[1]", "+I[2]"]


def test_words_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    t_env = streams()
    words = t_env.from_elements([("a",), ("b",), ("a",)], ["word"])
    found = words.group_by(col("word")).select(col("word"), lit(1).count.alias("n"))
    assert found.to_dataframe().to_pylist() == [{"word": "a", "n": 2}, {"word": "b", "n": 1}]


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("join", "DataFrame.join"),
        ("window", "TUMBLE in SQL"),
        ("order_by", "top_n"),
        ("flat_map", "to_data_stream"),
    ],
)
def test_other_methods_name_the_way(name: str, way: str) -> None:
    table = streams().from_elements([(1,)], ["n"])
    with pytest.raises(ConfigError, match=f"Table.{name} is not there.*{way}"):
        getattr(table, name)(None)


def test_functions_of_many_rows_are_refused() -> None:
    for refused, way in ((udtf, "flat_map"), (udaf, "COUNT, SUM")):
        with pytest.raises(ConfigError, match=way):
            refused(lambda row: row, result_types=["INT"])
    with pytest.raises(ConfigError, match="result_type"):
        udf(lambda row: row)
    assert table_api.__all__
