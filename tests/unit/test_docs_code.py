"""The code of the pages runs as it is shown: whoever copies a page from its top has all names that it uses.

A block may use what the blocks above it on the page have made, and nothing else.  ``CODE_RUN_BY`` says where
each page runs: those of ``HERE`` in this file, in one process, without Spark.
"""

from __future__ import annotations

import builtins
import re
import symtable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.common import JobExecutionResult
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.local import local_cluster
from penstock.testing.servers import PostgresServer
from tests.servers import skip_without
from tests.unit.test_docs import PAGES, ROOT, python_blocks

HERE = "tests/unit/test_docs_code.py"
CODE_RUN_BY = {
    "README.md": "tests/unit/test_docs.py",
    "async.md": "tests/integration/test_join_guides.py",
    "backfill.md": HERE,
    "batch-of-streams.md": HERE,
    "batch.md": HERE,
    "columns.md": "tests/unit/test_docs.py",
    "databases.md": "tests/unit/connectors/test_database_guide.py",
    "dataframe.md": "tests/unit/test_docs.py",
    "enrichment-and-joins.md": "tests/integration/test_tutorials.py",
    "event-and-processing-time.md": HERE,
    "fault-tolerance.md": HERE,
    "files.md": "tests/integration/test_table_guide.py",
    "fraud-patterns.md": "tests/integration/test_tutorials.py",
    "from-pyflink.md": "tests/integration/test_tutorials.py",
    "from-structured-streaming.md": "tests/integration/test_tutorials.py",
    "hourly-counts.md": "tests/integration/test_tutorials.py",
    "joins.md": "tests/integration/test_join_guides.py",
    "kafka-to-a-database.md": "tests/integration/test_tutorials.py",
    "kafka.md": "tests/integration/test_kafka_jobs.py",
    "keyed-state.md": HERE,
    "kinesis.md": HERE,
    "notebooks.md": "tests/unit/test_docs.py",
    "online-model.md": "tests/integration/test_tutorials.py",
    "other-ends.md": HERE,
    "packages-on-executors.md": HERE,
    "patterns.md": "tests/unit/cep/test_cep_docs.py",
    "pyflink.md": "tests/unit/compat/test_compat_guide.py",
    "replay-and-debug.md": "tests/integration/test_tutorials.py",
    "rocksdb.md": HERE,
    "savepoints.md": HERE,
    "spark.md": "tests/spark/test_spark_guides.py",
    "sql.md": HERE,
    "state-processor.md": "tests/spark/test_spark_guides.py",
    "state.md": "tests/unit/state/test_state_guide.py",
    "stream-first.md": HERE,
    "test-servers.md": HERE,
    "testing.md": "tests/sim/test_sim_guide.py",
    "time.md": "tests/integration/test_time_guide.py",
    "unaligned.md": HERE,
    "upgrade-a-running-job.md": "tests/integration/test_tutorials.py",
    "verify.md": "tests/unit/testing/test_verify_right.py",
    "web-sessions.md": "tests/integration/test_tutorials.py",
    "windows-over-streams.md": HERE,
    "windows.md": "tests/unit/test_docs.py",
    "writing-sources-and-sinks.md": "tests/unit/test_docs.py",
}
WITH_CODE = [page for page in PAGES if python_blocks(page)]
ALWAYS_THERE = {*dir(builtins), "__name__", "__file__"}


def tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for inner in table.get_children():
        yield from tables(inner)


def made_and_used(code: str) -> tuple[set[str], set[str]]:
    """The global names that a block makes, and those that it reads, in functions and classes too."""
    module = symtable.symtable(code, "<block>", "exec")
    made = {
        symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }
    used = {
        symbol.get_name()
        for table in tables(module)
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or table is module)
    }
    return made, used


def unknown_names(blocks: list[str]) -> list[str]:
    """What a reader would not have: used by a block, made by none up to it."""
    known, unknown = set(ALWAYS_THERE), []
    for block in blocks:
        made, used = made_and_used(block)
        known |= made
        unknown += sorted(used - known)
    return unknown


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_a_page_makes_all_names_that_it_uses(page: Path) -> None:
    assert not unknown_names(python_blocks(page))


def test_unknown_names_are_found() -> None:
    later = ["x = 1\n\n\ndef f(a):\n    return a + y\n", "y = 2\nclass K(Base):\n    z = x\n"]
    assert unknown_names(later) == ["y", "Base"]
    assert unknown_names(["import a.b as c\n[c for d in c]\n", "e = lambda f: f + d\n"]) == ["d"]


def test_every_page_with_code_runs_somewhere() -> None:
    assert {page.name for page in WITH_CODE} == set(CODE_RUN_BY)
    silent = [
        name for name, test in CODE_RUN_BY.items() if f'"{name}"' not in (ROOT / test).read_text("utf-8")
    ]
    assert not silent, f"{silent}: the test that is said to run it does not name it"


def test_no_python_hides_behind_another_fence() -> None:
    """What stands in a list, or is called ``py``, would not be found."""
    odd = re.compile(r"^(?:[ \t]+```python|[ \t]*```(?:py|python3|pycon|python[ {].*))$", re.MULTILINE)
    found = {page.name: odd.findall(page.read_text(encoding="utf-8")) for page in PAGES}
    assert not {name for name, blocks in found.items() if blocks}


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A directory to run in; jobs that would never end are cancelled as soon as they are accepted."""
    execute = StreamExecutionEnvironment.execute

    def until_accepted(
        self: StreamExecutionEnvironment, name: str | None = None
    ) -> JobExecutionResult | None:
        if all(getattr(node.source, "bounded", True) for node in self.graph.nodes if hasattr(node, "source")):
            return execute(self, name)
        self.execute_async(name).cancel().result()
        return None

    monkeypatch.setattr(StreamExecutionEnvironment, "execute", until_accepted)
    monkeypatch.chdir(tmp_path)
    for name in ("PYSPARK_PYTHON", "ORDERS_TOKEN", "REDIS_PASSWORD"):  # of the pages; put back afterwards
        monkeypatch.setenv(name, "a-secret-of-the-test")
    return tmp_path


@pytest.mark.parametrize("name", [name for name, test in CODE_RUN_BY.items() if test == HERE])
def test_the_code_of_a_page_runs(name: str, brief: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a directory of its own; all that is changed is where data lie and which port is taken."""
    (page,) = [page for page in WITH_CODE if page.name == name]
    blocks = python_blocks(page)
    names: dict[str, Any] = {"__name__": "__main__"}
    if any(PostgresServer.__name__ in block for block in blocks):
        skip_without(PostgresServer)
    with local_cluster(slots=2):
        for block in blocks:
            here = block.replace('"/data/', f'"{brief}/').replace("port=8099", "port=0")
            exec(compile(here, name, "exec"), names)
    assert blocks and names.keys() > {"__name__"}
