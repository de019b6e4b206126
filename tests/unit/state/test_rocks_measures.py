"""What RocksDB says of itself, as metrics."""

from penstock.state.backend import EntryShape
from penstock.state.heap.backend import heap_state
from penstock.state.rocks.backend import RocksBackend
from penstock.state.rocks.database import Database, RocksSettings


def test_numbers_are_those_of_the_database(tmp_path):
    database = Database(RocksSettings(str(tmp_path), memory_bytes=8 << 20))
    database.open()
    database.write([(b"k%d" % n, b"x" * 100) for n in range(200)], [])
    read = database.measures()
    assert read["rocksdb.estimate-num-keys"] == 200
    assert read["rocksdb.cur-size-all-mem-tables"] > 200 * 100
    assert read["rocksdb.block-cache-capacity"] == 8 << 20 and read["rocksdb.background-errors"] == 0
    assert {"rocksdb.total-sst-files-size", "rocksdb.estimate-live-data-size"} <= set(read)
    database.close()


def test_a_backend_without_a_database_says_nothing(tmp_path):
    backend = RocksBackend(RocksSettings(str(tmp_path)), 128)
    assert backend.measures() == {} == heap_state().backend.measures()
    backend.new_table("t", EntryShape.KEY)
    assert "rocksdb.estimate-num-keys" in backend.measures()
    backend.close()
