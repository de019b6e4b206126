"""What was prepared survives a server that is killed, whole, and is committed when it is back."""

from __future__ import annotations

import pytest
from database_kit import EXACT, Db, barrier, commit, writer_of

from penstock.connectors.sink import CommitOutcome
from penstock.core.batch import Batch
from penstock.testing.servers import MariaDbServer, PostgresServer
from tests.servers import skip_without


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [(MariaDbServer, "mysql"), (PostgresServer, "postgresql")],
    ids=["mariadb", "postgresql"],
)
def test_prepared_rows_survive_a_killed_server(kind, scheme):
    skip_without(kind)
    with kind() as server:
        db = Db(server, scheme)
        rows = {}
        for delivery in EXACT:
            table = f"sink_{delivery.name.lower()}"
            db.run(f"CREATE TABLE {table} (k INT PRIMARY KEY)")
            sink = db.builder(table).set_columns("k").set_key_columns("k").set_delivery(delivery).build()
            sink.check()
            writer = writer_of(sink, sink_id=table)
            writer.write(Batch.of_rows([(key,) for key in range(100)]))
            rows[delivery] = (table, sink, writer, barrier(writer))
        server.kill()
        for _, sink, _, committables in rows.values():
            committer = sink.create_committer()
            assert list(committer.commit(committables)) == [CommitOutcome.RETRY]
        server.restart()
        for table, sink, writer, committables in rows.values():
            assert commit(sink, committables) == ["COMMITTED"]
            writer.write(Batch.of_rows([(100,)]))
            commit(sink, barrier(writer, 2))
            assert db.run(f"SELECT COUNT(*) FROM {table}") == [(101,)]
        assert db.prepared() + db.staging() == []
