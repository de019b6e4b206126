"""What ``penstock port`` does to one program: which names change, and what is listed."""

from __future__ import annotations

import pytest

from penstock.porting.findings import Kind
from penstock.porting.program import port


def ported(source):
    after, found = port(source)
    same = after.replace("penstock", "pyflink") == source.replace("penstock", "pyflink")
    assert same, "nothing but the package's name may change"
    return after, {finding.line: finding for finding in found}


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("import pyflink\n", "import penstock\n"),
        ("import os, pyflink.common  # why\n", "import os, penstock.common  # why\n"),
        ("import pyflink.datastream as ds\n", "import penstock.datastream as ds\n"),
        ("from pyflink import datastream, common\n", "from penstock import datastream, common\n"),
        ("from pyflink.common import Row as R\n", "from penstock.common import Row as R\n"),
        ("from pyflink.common import *\n", "from penstock.common import *\n"),
        ("from  pyflink . common import Row\n", "from  penstock . common import Row\n"),
        ("from \\\n    pyflink.common import Row\n", "from \\\n    penstock.common import Row\n"),
        (
            "from pyflink.common import (  # those\n    Row,\n    # and\n    Types as T,\n)\n",
            "from penstock.common import (  # those\n    Row,\n    # and\n    Types as T,\n)\n",
        ),
        ("if 1:\r\n\timport pyflink\r\n", "if 1:\r\n\timport penstock\r\n"),
        ("import pyflink\r\rx = pyflink", "import penstock\r\rx = penstock"),
        ("\x0cimport pyflink\n", "\x0cimport penstock\n"),
        ("é = 'ß\u2028'; import pyflink.common\n", "é = 'ß\u2028'; import penstock.common\n"),
        (
            "import pyflink.common\né = [pyflink.common.Row, pyflink]; o.pyflink = f(pyflink=1)\n",
            "import penstock.common\né = [penstock.common.Row, penstock]; o.pyflink = f(pyflink=1)\n",
        ),
        (
            "try:\n    import pyflink.common\nexcept ImportError:\n    pyflink = None\nok = pyflink\n",
            "try:\n    import penstock.common\nexcept ImportError:\n    penstock = None\nok = penstock\n",
        ),
        ("from pyflink.common import Row\npyflink = 1\n", "from penstock.common import Row\npyflink = 1\n"),
        ("def f() -> 'Row':\n    from pyflink.common import Row\n    return Row", None),
        (
            "# import pyflink\n'''\nimport pyflink\n'''\nx = 1\n",
            "# import pyflink\n'''\nimport pyflink\n'''\nx = 1\n",
        ),
        (
            "import penstock.common\nimport pyflink.datastream\n",
            "import penstock.common\nimport penstock.datastream\n",
        ),
        ("from .pyflink import a\nfrom pyflinkish import b\nimport my.pyflink\n", None),
        ("", ""),
    ],
)
def test_names_are_rewritten_in_place_and_nothing_else_is(source, wanted):
    after, found = ported(source)
    if wanted is None:
        wanted = source.replace("from pyflink.common", "from penstock.common")
    assert (after, found) == (wanted, {})


@pytest.mark.parametrize(
    "left",
    [
        "from pyflink.ml import Pipeline, Estimator\n",
        "import pyflink.ml\nx = pyflink.ml.Pipeline\n",
        "import pyflink.ml as m\nx = m.Pipeline\n",
        "from pyflink.ml.core import Stage\n",
    ],
)
def test_an_import_of_what_is_not_there_stays_and_is_listed(left):
    after, found = ported(left)
    assert after == left
    assert list(found) == [1] and found[1].kind is Kind.MISSING
    assert found[1].what == "pyflink.ml" and "not there" in found[1].advice


def test_models_beside_streams_leave_the_streams_alone():
    source = "import pyflink.ml, pyflink.common\nx = pyflink.ml.Foo\ny = pyflink.common.Row\n"
    after, found = ported(source)
    assert after == "import pyflink.ml, penstock.common\nx = pyflink.ml.Foo\ny = penstock.common.Row\n"
    assert list(found) == [1]


def test_programs_of_tables_are_ported():
    source = (
        "from pyflink.table import DataTypes, StreamTableEnvironment\n"
        "from pyflink.table.expressions import col\nfrom pyflink.table.udf import udf\n"
    )
    after, found = ported(source)
    assert after == source.replace("pyflink", "penstock") and not found


@pytest.mark.parametrize(
    ("source", "line", "what"),
    [
        ("from pyflink.datastream import (MapFunction,\n  Nowhere)\n", 2, "pyflink.datastream.Nowhere"),
        ("from pyflink.common import Types\nx = Types.NOWHERE()\n", 2, "pyflink.common.Types.NOWHERE"),
        ("import pyflink.common as c\n\nx = c.Nowhere\n", 3, "pyflink.common.Nowhere"),
        ("import pyflink.common\nx = pyflink.nowhere.x\n", 2, "pyflink.nowhere"),
        ("from pyflink.serializers import PickleSerializer\n", 1, "pyflink.serializers"),
        (
            "def f(env):\n  return (env\n    ._j_stream_execution_environment\n    .x)",
            3,
            "._j_stream_execution_environment",
        ),
        ("f(env)._j_data_stream.x()\n", 1, "._j_data_stream"),
        (
            "from pyflink.datastream import SourceFunction\nx = SourceFunction('org.x.Y')\n",
            2,
            "SourceFunction of a Java class",
        ),
    ],
)
def test_what_has_no_equivalent_is_listed_with_its_line(source, line, what):
    _, found = ported(source)
    assert found[line].what == what
    assert found[line].kind is Kind.MISSING and found[line].advice


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("import importlib\nimportlib.import_module('pyflink.common')\n", 2),
        ("exec('import x; from pyflink.common import Row')\n", 1),
        ("import pyflink\nx = f'{pyflink.__version__}'\n", 2),
        ("import pyflink\ndef f(pyflink): return pyflink\n", 1),
        ("import pyflink.common\npenstock = 1\n", 1),
        ("def f():\n  global pyflink\n  import pyflink\n", 3),
    ],
)
def test_what_cannot_be_rewritten_safely_is_left_to_a_person(source, line):
    after, found = ported(source)
    assert found[line].kind is Kind.BY_HAND
    assert after.splitlines()[line - 1] == source.splitlines()[line - 1]


def test_what_the_program_foresees_or_penstock_takes_is_only_noted():
    source = (
        "try:\n  from pyflink.ml import Table\nexcept ImportError:\n  Table = None\n"
        "env.add_jars('file:///x.jar')\n"
    )
    _, found = ported(source)
    assert [finding.kind for finding in found.values()] == [Kind.NOTE, Kind.NOTE]
    assert not any(finding.matters for finding in found.values())


def test_a_name_that_is_somewhere_else_says_where():
    _, found = ported("from pyflink.common import KafkaSource\nfrom pyflink.common import Typs\n")
    assert "penstock.datastream.connectors.kafka" in found[1].advice
    assert "Types" in found[2].advice


def test_a_name_that_the_program_uses_twice_is_not_followed():
    """``Types`` is something of the program's own here, at least in one place."""
    _, found = ported("from pyflink.common import Types\ndef f(Types):\n  return Types.nowhere\n")
    assert found == {}


@pytest.mark.parametrize(
    ("source", "called"),
    [
        ("from pyflink.java_gateway import get_gateway as g\n\nx = g().jvm\n", "java_gateway.get_gateway"),
        (
            "import pyflink.java_gateway\n\npyflink.java_gateway.get_gateway()\n",
            "java_gateway.get_gateway",
        ),
        (
            "from pyflink.util import java_utils\n\nf(java_utils.to_jarray(1, 2))\n",
            "util.java_utils.to_jarray",
        ),
    ],
)
def test_a_call_of_what_can_only_be_imported_is_listed(source, called):
    _, found = ported(source)
    assert list(found) == [3] and found[3].kind is Kind.MISSING
    assert found[3].what == f"pyflink.{called}()" and "no Java" in found[3].advice


def test_what_can_only_be_imported_may_be_imported():
    assert ported("from pyflink.java_gateway import get_gateway\n")[1] == {}


@pytest.mark.parametrize(
    ("source", "named"),
    [
        (
            "from pyflink.datastream.async_io import AsyncDataStream\n",
            {"pyflink.datastream.async_io.AsyncDataStream": "penstock.datastream"},
        ),
        ("from pyflink.ml import AggregateFunction\n", {"pyflink.ml": "not there"}),
    ],
)
def test_a_name_of_a_module_that_is_not_there_may_be_somewhere_else(source, named):
    after, found = port(source)
    assert after == source
    assert {finding.what for finding in found} == set(named)
    assert all(named[finding.what] in finding.advice for finding in found)
