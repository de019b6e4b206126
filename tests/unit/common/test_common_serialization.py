"""Schemas, encoders, JSON and CSV rows."""

import datetime as dt
import io
import pickle
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Encoder, Instant, Row, SimpleStringSchema, Types
from penstock.common.serialization import (
    BulkWriter,
    BulkWriterFactory,
    ByteArraySchema,
    DeserializationSchema,
    RowFieldExtractorSchema,
    SerializationSchema,
)
from penstock.common.serializer import TypeSerializer, VoidNamespaceSerializer
from penstock.core.errors import ConfigError, ConnectorError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.formats.avro import AvroRowSerializationSchema
from penstock.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from penstock.testing.local import local_cluster


def naive(*parts):
    """A datetime without time zone, as SQL timestamps are."""
    return dt.datetime(*parts, tzinfo=dt.UTC).replace(tzinfo=None)


def test_simple_schemas():
    text = SimpleStringSchema("UTF-16")
    assert text.deserialize(text.serialize("grün")) == "grün"
    assert text.get_produced_type() == Types.STRING()
    assert ByteArraySchema().serialize(bytearray(b"x")) == b"x" == ByteArraySchema().deserialize(b"x")
    with pytest.raises(ConfigError, match="klingon"):
        SimpleStringSchema("klingon")


def test_schemas_of_ones_own_must_be_complete():
    with pytest.raises(TypeError):
        SerializationSchema()
    with pytest.raises(TypeError):
        DeserializationSchema()


def test_row_field_extractor():
    schema = RowFieldExtractorSchema(1)
    assert schema.serialize(Row("k", 42)) == b"42"
    assert schema.serialize(Row("k", None)) == schema.serialize(None) == b""
    assert schema == RowFieldExtractorSchema(1) != RowFieldExtractorSchema(2)
    with pytest.raises(ConfigError, match="Field index must be non-negative"):
        RowFieldExtractorSchema(-1)


def test_encoder():
    encoder = Encoder.simple_string_encoder()
    stream = io.BytesIO()
    encoder.encode("é", stream)
    assert stream.getvalue() == "é\n".encode()
    assert encoder.encode_batch(["a", 1]) == b"a\n1\n"
    assert encoder.encode_batch([]) == b""
    assert (
        encoder.typed(Types.ROW([Types.BOOLEAN(), Types.INT()])).encode_batch([Row(True, 1)])
        == b"+I[true, 1]\n"
    )


def test_bulk_writers_of_ones_own(tmp_path):
    class Lines(BulkWriter):
        def __init__(self, stream):
            self.stream = stream

        def write(self, batch):
            self.stream.write("".join(batch.to_rows()).encode())

        def size(self):
            return self.stream.tell()

        def finish(self):
            self.stream.write(b"end")

    class Factory(BulkWriterFactory):
        def create(self, stream):
            return Lines(stream)

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    sink = FileSink.for_bulk_format(str(tmp_path / "out"), Factory()).build()
    with local_cluster(slots=1):
        env.from_collection(["a", "b", "c"]).sink_to(sink)
        env.execute()
    (file,) = (path for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert file.read_bytes() == b"abcend"


def test_bulk_writers_of_ones_own_must_be_complete():
    with pytest.raises(TypeError):
        BulkWriter()
    with pytest.raises(TypeError):
        BulkWriterFactory()


def test_type_serializers_are_equal_by_class_and_settings():
    class Fixed(TypeSerializer[bytes]):
        def __init__(self, n):
            self.n = n

        def serialize(self, element, stream):
            stream.write(element)

        def deserialize(self, stream):
            return stream.read(self.n)

    assert Fixed(1) == Fixed(1) != Fixed(2)
    assert VoidNamespaceSerializer() == VoidNamespaceSerializer() != Fixed(1)
    assert VoidNamespaceSerializer().deserialize(io.BytesIO(b"x")) == b""


# --- JSON ---

FULL = Types.ROW_NAMED(
    ["s", "b", "i", "f", "dec", "d", "t", "ts", "y", "l", "m", "r", "u", "at"],
    [
        Types.STRING(), Types.BOOLEAN(), Types.INT(), Types.DOUBLE(), Types.BIG_DEC(), Types.SQL_DATE(),
        Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.LIST(Types.SQL_DATE()),
        Types.MAP(Types.STRING(), Types.INT()), Types.ROW_NAMED(["x"], [Types.BIG_DEC()]),
        Types.TUPLE([Types.INT(), Types.STRING()]), Types.INSTANT(),
    ],
)  # fmt: skip
FULL_ROW = Row(
    s="ü", b=True, i=3, f=1.0, dec=Decimal("1.5"), d=dt.date(2020, 1, 2), t=dt.time(3, 4, 5),
    ts=naive(2020, 1, 2, 3, 4, 5, 600), y=b"\x00\xff", l=[None, dt.date(1999, 9, 9)], m={"k": 1},
    r=Row(x=Decimal(7)), u=(1, "z"), at=Instant(5, 250_000_000),
)  # fmt: skip


def json_reader(kind=FULL):
    return JsonRowDeserializationSchema.builder().type_info(kind)


def json_writer(kind=FULL):
    return JsonRowSerializationSchema.builder().with_type_info(kind).build()


def test_json_of_every_type_round_trips_also_after_pickling():
    writer, reader = pickle.loads(pickle.dumps((json_writer(), json_reader().build())))
    assert reader.deserialize(writer.serialize(FULL_ROW)) == FULL_ROW
    nothing = Row.many(FULL.get_field_names(), [[None] * 14])[0]
    assert reader.deserialize(writer.serialize(nothing)) == nothing


def test_json_text():
    kind = Types.ROW_NAMED(["a", "ts"], [Types.INT(), Types.SQL_TIMESTAMP()])
    row = Row(a=1, ts=naive(2020, 1, 2, 3, 4, 5))
    assert json_writer(kind).serialize(row) == b'{"a":1,"ts":"2020-01-02T03:04:05Z"}'
    assert json_reader(kind).build().get_produced_type() == kind


def test_json_missing_fields_and_errors():
    kind = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.ROW_NAMED(["c"], [Types.INT()])])
    assert json_reader(kind).build().deserialize(b'{"b": {}, "z": 1}') == Row(a=None, b=Row(c=None))
    strict = json_reader(kind).fail_on_missing_field().build()
    for text in (b'{"a": 1}', b'{"a": 1, "b": {}}'):
        with pytest.raises(ConnectorError, match="ignore_parse_errors"):
            strict.deserialize(text)
    lenient = json_reader(kind).ignore_parse_errors().build()
    too_large = [b'{"a": 2147483648}', b'{"a": "-2147483649"}', b'{"b": {"c": 1e10}}']
    for text in (b"{", b"[]", b"3", b'{"a": "x"}', b"\xff", b'{"a":' * 100_000, *too_large):
        assert lenient.deserialize(text) is None
        with pytest.raises(ConnectorError, match="cannot read"):
            json_reader(kind).build().deserialize(text)


def test_a_dictionary_is_no_row():
    """Its keys would be written as the values."""
    kind = Types.ROW_NAMED(["a"], [Types.STRING()])
    avro = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]}'
    avro_writer = AvroRowSerializationSchema(avro_schema_string=avro)
    for schema in (json_writer(kind), csv_writer(kind).build(), avro_writer):
        assert b"x" in schema.serialize(Row(a="x"))
        with pytest.raises((TypeError, ConnectorError), match="Row"):
            schema.serialize({"a": "x"})


def test_json_builders_refuse_nonsense():
    with pytest.raises(ConfigError, match="ROW_NAMED"):
        JsonRowDeserializationSchema.builder().build()
    with pytest.raises(ConfigError, match="ROW_NAMED"):
        JsonRowSerializationSchema.builder().with_type_info(Types.INT()).build()
    with pytest.raises(ConfigError, match="not both"):
        json_reader().fail_on_missing_field().ignore_parse_errors().build()


def test_json_schema_gives_the_type():
    schema = """{"type": "object", "properties": {
        "n": {"type": "number"}, "i": {"type": ["null", "integer"]}, "b": {"type": "boolean"},
        "s": {"type": "string"}, "d": {"type": "string", "format": "date"},
        "y": {"type": "string", "contentEncoding": "base64"},
        "l": {"type": "array", "items": {"type": "string", "format": "date-time"}},
        "o": {"type": "object", "properties": {"t": {"type": "string", "format": "time"}}}}}"""
    reader = JsonRowDeserializationSchema.builder().json_schema(schema).build()
    assert reader.get_produced_type() == Types.ROW_NAMED(
        ["n", "i", "b", "s", "d", "y", "l", "o"],
        [
            Types.BIG_DEC(), Types.BIG_INT(), Types.BOOLEAN(), Types.STRING(), Types.SQL_DATE(),
            Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.OBJECT_ARRAY(Types.SQL_TIMESTAMP()),
            Types.ROW_NAMED(["t"], [Types.SQL_TIME()]),
        ],
    )  # fmt: skip
    row = reader.deserialize(b'{"n": 1.5, "l": ["2020-01-01T01:00:00+01:00"], "o": {"t": "01:02:03Z"}}')
    assert (row.n, row.l, row.o.t) == (Decimal("1.5"), [naive(2020, 1, 1)], dt.time(1, 2, 3))
    for wrong in ("{", '{"type": "string"}', '{"type": "object", "properties": {"a": {}}}'):
        with pytest.raises(ConfigError, match="JSON schema"):
            JsonRowDeserializationSchema.builder().json_schema(wrong)


# --- CSV ---

LINE = Types.ROW([Types.STRING(), Types.INT(), Types.STRING()])


def csv_reader(kind=LINE):
    return CsvRowDeserializationSchema.Builder(kind)


def csv_writer(kind=LINE):
    return CsvRowSerializationSchema.Builder(kind)


def named(*values):
    return Row.many([f"f{i}" for i in range(len(values))], [values])[0]


def test_csv_lines():
    assert csv_writer().build().serialize(Row("a", 1, 'q"x,y')) == b'a,1,"q""x,y"\n'
    assert csv_reader().build().deserialize(b'a,1,"q""x,y"\r\n') == named("a", 1, 'q"x,y')


def test_csv_settings():
    writer = csv_writer().set_field_delimiter(";").set_line_delimiter("\r").set_null_literal("n/a")
    writer.set_quote_character("'")
    assert writer.build().serialize(Row(None, 1, "a;b")) == b"n/a;1;'a;b'\r"
    reader = csv_reader().set_field_delimiter(";").set_null_literal("n/a").set_quote_character("'")
    assert reader.build().deserialize(b"n/a;1;'a;b'\r") == named(None, 1, "a;b")
    bare = csv_writer().disable_quote_character().set_escape_character("\\").set_line_delimiter("").build()
    assert bare.serialize(Row("a,b", 1, "c")) == b"a\\,b,1,c"
    escaped = csv_reader().set_escape_character("\\").set_allow_comments(True).build()
    assert escaped.deserialize(b"a\\,b,1,c") == named("a,b", 1, "c")
    assert escaped.deserialize(b"# hello") is None
    with pytest.raises(ConfigError, match="one character"):
        csv_writer().set_field_delimiter("||")


def test_csv_of_every_type_round_trips_also_after_pickling():
    kind = Types.ROW([
        Types.BOOLEAN(), Types.DOUBLE(), Types.BIG_DEC(), Types.SQL_DATE(), Types.SQL_TIME(),
        Types.SQL_TIMESTAMP(), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.LIST(Types.INT()),
        Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()]),
    ])  # fmt: skip
    row = named(
        True, 1.5, Decimal("2.50"), dt.date(2020, 1, 2), dt.time(3, 4, 5), naive(2020, 1, 2, 3, 4, 5),
        b"\x00", [1, 2], Row(x=1, y="z"),
    )  # fmt: skip
    pair = (
        csv_writer(kind).set_array_element_delimiter("|").build(),
        csv_reader(kind).set_array_element_delimiter("|").build(),
    )
    writer, reader = pickle.loads(pickle.dumps(pair))
    assert reader.deserialize(writer.serialize(row)) == row
    assert b"1|2" in writer.serialize(row)


def test_csv_errors():
    for text in (b"a,x,b", b"a,1", b"", b"\xff,1,a", b"a,2147483648,b"):
        with pytest.raises(ConnectorError, match="set_ignore_parse_errors"):
            csv_reader().build().deserialize(text)
        assert csv_reader().set_ignore_parse_errors(True).build().deserialize(text) is None
    with pytest.raises(ConfigError, match="rows"):
        csv_reader(Types.INT())
    for schema in (csv_reader, csv_writer):
        with pytest.raises(ConfigError, match="use JSON"):
            schema(Types.ROW([Types.MAP(Types.INT(), Types.INT())])).build()


INTS = st.integers(-(2**31), 2**31 - 1)


@settings(max_examples=60)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0")), INTS)
def test_csv_text_round_trips(text, number):
    row = named(text, number, text)
    assert csv_reader().build().deserialize(csv_writer().build().serialize(row)) == row
