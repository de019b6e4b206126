"""A writer that others have left several segments behind catches up and appends."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.connectors.log.client import Producer
from penstock.connectors.log.topic import Log


@pytest.mark.parametrize("rolls", [1, 2, 5])
def test_a_writer_left_behind_by_several_segments_goes_on(tmp_path: Path, rolls: int) -> None:
    topic = Log(tmp_path).create_topic("t", partitions=1, segment_bytes=400)
    with Producer(topic) as slow, Producer(topic) as quick:
        slow.send_many([b"first"])
        slow.flush()
        before = topic.describe().partitions[0].segments
        count = 0
        while topic.describe().partitions[0].segments < before + rolls:
            quick.send_many([b"x" * 100])
            quick.flush()
            count += 1
        slow.send_many([b"last"])
        slow.flush()
    found = topic.reader(0).read(0, 1000).column("value").to_pylist()
    assert found[0] == b"first" and found[-1] == b"last" and len(found) == count + 2
