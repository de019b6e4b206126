"""``DataStreamSink``: the end of a stream, as users hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from penstock.graph.nodes import Chaining, NodeId

if TYPE_CHECKING:
    from penstock.datastream.slot_sharing_group import SlotSharingGroup
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment


class DataStreamSink:
    """The end of a stream; what ``sink_to`` and ``print`` return. Its setters name and place the sink.

    >>> sink = env.from_collection([1]).print().name("screen").uid("screen")
    >>> type(sink).__name__
    'DataStreamSink'
    """

    def __init__(self, env: StreamExecutionEnvironment, node_id: NodeId) -> None:
        self._env = env
        self._node_id = node_id

    def _change(self, **changes: Any) -> Self:
        self._env.graph.change(self._node_id, **changes)
        return self

    def name(self, name: str) -> Self:
        """Name the sink."""
        return self._change(name=name)

    def uid(self, uid: str) -> Self:
        """Give the sink a lasting identity, by which its transactions are found again after a change."""
        return self._change(uid=uid)

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Give the sink the identity that a snapshot shows for it."""
        return self._change(uid_hash=uid_hash)

    def set_parallelism(self, parallelism: int) -> Self:
        """How many subtasks write."""
        self._env.check_parallelism(parallelism)
        return self._change(parallelism=parallelism)

    def set_description(self, description: str) -> Self:
        """Longer text for plans."""
        return self._change(description=description)

    def disable_chaining(self) -> Self:
        """Give the sink a task of its own."""
        return self._change(chaining=Chaining.NEVER)

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Keep the sink out of chains with other groups."""
        name = slot_sharing_group if isinstance(slot_sharing_group, str) else slot_sharing_group.get_name()
        return self._change(slot_group=name)
