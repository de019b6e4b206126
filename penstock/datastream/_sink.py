"""The end of a stream, as users hold it: ``DataStreamSink``, or the iterator of ``execute_and_collect``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

from penstock.common.job_client import JobClient
from penstock.core.type_vars import T
from penstock.core.wanted import wanted
from penstock.graph.nodes import Chaining, NodeId

if TYPE_CHECKING:
    from penstock.datastream.slot_sharing_group import SlotSharingGroup
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

_POLL_S = 0.05


class StepSettings(ABC):
    """The setters of streams and sinks: they name and place the step behind it."""

    _env: StreamExecutionEnvironment

    @abstractmethod
    def _step(self) -> NodeId:
        """Whose settings these are."""

    def _change(self, **changes: Any) -> Self:
        self._env.graph.change(self._step(), **changes)
        return self

    def name(self, name: str) -> Self:
        """Name the step, for plans, errors and metrics. Names may change at will; see ``uid``."""
        return self._change(name=wanted(str, name))

    def uid(self, uid: str) -> Self:
        """Give the step an identity by which its state and transactions are found when the program changes.

        Without one, state is found by the step's place in the program.  Set it on every step with state
        before the first savepoint; it must be unique in the program.
        """
        return self._change(uid=wanted(str, uid))

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Give the step the identity that a snapshot shows for it."""
        return self._change(uid_hash=wanted(str, uid_hash))

    def set_parallelism(self, parallelism: int) -> Self:
        """How many subtasks the step has; without this, as many as the environment says."""
        self._env.check_parallelism(parallelism)
        return self._change(parallelism=parallelism)

    def set_description(self, description: str) -> Self:
        """Longer text for plans."""
        return self._change(description=wanted(str, description))

    def disable_chaining(self) -> Self:
        """Give the step a task of its own."""
        return self._change(chaining=Chaining.NEVER)

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Keep the step out of chains with other groups. All groups share the job's slots."""
        name = slot_sharing_group if isinstance(slot_sharing_group, str) else slot_sharing_group.get_name()
        return self._change(slot_group=name)


class DataStreamSink(StepSettings):
    """The end of a stream; what ``sink_to`` and ``print`` return. Its setters name and place the sink.

    >>> sink = env.from_collection([1]).print().name("screen").uid("screen")
    >>> type(sink).__name__
    'DataStreamSink'
    """

    def __init__(self, env: StreamExecutionEnvironment, node_id: NodeId) -> None:
        self._env = env
        self._node_id = node_id

    def _step(self) -> NodeId:
        return self._node_id


class CloseableIterator(Generic[T]):
    """Records of a running job, as they come; from ``execute_and_collect``. For one thread.

    It ends when the job ends, with the job's error if it failed.  Close it, or use ``with``, to cancel a job
    that is not read to its end.

    >>> with env.from_collection([1, 2, 3]).execute_and_collect() as records:
    ...     next(records)
    1
    """

    def __init__(self, records: SimpleQueue[T], client: JobClient) -> None:
        self._records = records
        self._client = client
        self._result = client.get_job_execution_result()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        while True:
            over = self._result.done()
            try:
                return self._records.get(timeout=0 if over else _POLL_S)
            except Empty:
                if over:
                    self._result.result()
                    raise StopIteration from None

    def next(self) -> T:
        """The next record; waits for it. ``StopIteration`` at the end of the job."""
        return self.__next__()

    def close(self) -> None:
        """Cancel the job if it still runs."""
        if not self._result.done():
            self._client.cancel().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        """An interrupted job can be gone on with; one that is left otherwise is cancelled."""
        left = exc_type is not None and not issubclass(exc_type, Exception)
        if left and not self._result.done():
            self._client.handle.interrupt().result()
        self.close()
