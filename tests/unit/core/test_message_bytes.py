"""Control messages: data wherever nothing of the program is in them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, get_args

import pytest

from penstock.connectors.source import Split
from penstock.core import messages as m
from penstock.core.documents import MARK, dump
from penstock.core.errors import SnapshotError
from penstock.core.handles import (
    Blob,
    ChannelHandle,
    Committable,
    KeyedHandle,
    NativeHandle,
    OperatorSnapshot,
    SubtaskSnapshot,
)
from penstock.core.ids import (
    Epoch,
    EventTime,
    Generation,
    OperatorId,
    SlotId,
    Subtask,
    SubtaskIndex,
    VertexId,
)
from penstock.core.signals import SnapshotKind
from penstock.exchange.control_frames import from_bytes, to_bytes

HERE = Subtask(VertexId("v"), SubtaskIndex(1))
BLOB = Blob.of(b"state")
KEYED = KeyedHandle(BLOB, (0, 63), False)
NATIVE = NativeHandle("rocksdb", (("1.sst", Blob(5, "0" * 32, "shared/x")),), (0, 127), True)
IN_FLIGHT = ChannelHandle("edge", SubtaskIndex(0), SubtaskIndex(1), BLOB)
PART = SubtaskSnapshot(
    HERE, (OperatorSnapshot(OperatorId("o"), (KEYED, NATIVE), BLOB),), False, (IN_FLIGHT,), 5
)


@dataclass(frozen=True)
class Mine:
    number: int


def deploy(item: Any) -> m.Deploy:
    restore = m.OperatorRestore((KEYED,), {"splits": ("union", (item,))})
    peers = dump({SlotId(0): ("host", 1), SlotId(1): ("other", 2)})
    shares = {HERE: {OperatorId("o"): restore}}
    return m.Deploy(Generation(3), b"plan", peers, Epoch(7), "file:///x", shares, 2, (IN_FLIGHT,))


MESSAGES: list[Any] = [
    deploy((Split("0"), 5, False, 0, 1)),
    m.AssignSplits(HERE, (Split("0", ("path", 0, 10)),), True),
    m.SplitsSettled(HERE),
    m.TriggerSnapshot(Epoch(1), SnapshotKind.SAVEPOINT, 5, True, "file:///sp"),
    m.EndInput(),
    m.AbortSnapshot(Epoch(1)),
    m.SnapshotCompleted(Epoch(1)),
    m.AlignWatermarks("group", EventTime(5)),
    m.DriverMessageTaken(),
    m.TakeSamples(),
    m.TakeOutput(),
    m.TakeTail(VertexId("v"), True, ("*password*",)),
    m.Leave("done"),
    m.Opening(HERE, "step"),
    m.Deployed(),
    m.SnapshotAck(
        Epoch(1), PART, (Committable(OperatorId("o"), Epoch(1), SubtaskIndex(0), b"x"),), 0.5, 1, 2.0, 7
    ),
    m.SnapshotDeclined(Epoch(1), HERE, "because"),
    m.TaskFinished(HERE, {"records": 5.0}),
    m.WatermarkReport(OperatorId("o"), "step", 0, EventTime(5), True, False, "it", None),
    m.Remark("step", "kind", "text"),
    m.Heartbeat({HERE: {"records": 1.0, "busy": 2}}, 5, {"pid": 7.0}),
    m.Output("a line\n", "printed"),
    m.Samples(50, {"vertex": {"step (task.py:1);map (job.py:3)": 7}}, {"MainThread": "stack"}),
]
OPAQUE: list[Any] = [m.DriverMessage(OperatorId("o"), [1, 2]), m.TaskFailed(HERE, ValueError("x"))]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_known_message_is_data(message: Any) -> None:
    data = to_bytes(message)
    assert data[:1] == MARK
    assert from_bytes(data) == message == from_bytes(bytearray(data))


def test_every_kind_of_message_is_looked_at() -> None:
    kinds = {*get_args(m.ToSlot), *get_args(m.FromSlot)}
    assert {type(message) for message in (*MESSAGES, *OPAQUE)} == kinds


@pytest.mark.parametrize("message", [deploy(Mine(5)), m.AssignSplits(HERE, (Split("0", Mine(1)),), False)])
def test_a_message_with_an_object_of_the_program_is_a_pickle(message: Any) -> None:
    data = to_bytes(message)
    assert data[:1] != MARK and from_bytes(data) == message == pickle.loads(data)


def test_what_programs_say_is_a_pickle() -> None:
    assert from_bytes(to_bytes(OPAQUE[0])) == OPAQUE[0]
    assert str(from_bytes(to_bytes(OPAQUE[1])).error) == "x"
    assert to_bytes(OPAQUE[0])[:1] != MARK != to_bytes(OPAQUE[1])[:1]


def test_data_that_is_no_message_is_refused() -> None:
    with pytest.raises(SnapshotError):
        from_bytes(MARK + b"D\x05\0[]")
