"""The code of the guide to databases runs, on real servers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from database_kit import MARIADB, POSTGRESQL, database

from penstock.common import Row, Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.local import local_cluster

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "databases.md"


@pytest.fixture(params=[MARIADB, POSTGRESQL], ids=["mariadb", "postgresql"])
def db(request):
    for db in database(request, request.param):
        db.run(
            "CREATE TABLE sink_counts (country VARCHAR(2), hour INT, clicks BIGINT, "
            "PRIMARY KEY (country, hour))"
        )
        db.run("CREATE TABLE sink_clicks (country VARCHAR(2), hour INT)")
        yield db


def test_the_sinks_of_the_guide(db):
    text = PAGE.read_text(encoding="utf-8").split("## Reading")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    code = "\n".join(blocks).replace('"counts"', '"sink_counts"').replace("INTO clicks", "INTO sink_clicks")
    guide: dict = {}
    exec(compile(code, str(PAGE), "exec"), guide)
    rows = [("de", 1, 5), ("fr", 1, 7), ("de", 1, 6)]
    with local_cluster(slots=2):
        guide["write_counts"](db.url, db.server.password, rows)
        assert sorted(db.run("SELECT * FROM sink_counts")) == [("de", 1, 6), ("fr", 1, 7)]
        guide["never_back"](db.url, db.server.password).check()
        env = StreamExecutionEnvironment.get_execution_environment()
        stream = env.from_collection([Row("de", 1)] * 3, Types.ROW([Types.STRING(), Types.INT()]))
        url = "jdbc:" + db.url.replace(f"{db.server.user}@", "")
        guide["by_statement"](stream, url, db.server.user, db.server.password)
        env.execute("clicks")
    assert db.run("SELECT * FROM sink_clicks") == [("de", 1)] * 3
