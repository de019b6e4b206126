"""What runs inside a Spark task: one slot, its sockets, and the loop that drives them.

Threads: the loop owns everything; beside it a thread that writes state files, one that accepts peers,
and one that sends heartbeats so that a long-running user function does not look like a dead slot.
A slot whose driver has gone, or whose generation is over, leaves at once.
"""

from __future__ import annotations

import contextlib
import queue
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any

from penstock.core.clock import SystemClock
from penstock.core.errors import PenstockError, TransportError, as_error
from penstock.core.ids import Generation, SlotId
from penstock.core.log_format import TEXT, all_formatted
from penstock.core.log_place import LogPlace, placed
from penstock.core.messages import FromSlot, Heartbeat, Opening, TakeOutput, TakeSamples, TaskFailed
from penstock.core.process_facts import ProcessFacts
from penstock.core.written import WRITTEN
from penstock.exchange.auth import Hello
from penstock.exchange.control_frames import Pieces, from_bytes, queue_message, to_bytes
from penstock.exchange.frames import FramedSocket
from penstock.exchange.lines import PLAIN, Lines, Transport, unpacked
from penstock.exchange.network import TcpNetwork
from penstock.snapshot.local_backup import LocalBackup, local_backup
from penstock.snapshot.storage import MemoryStore, SnapshotStore
from penstock.snapshot.store import open_store
from penstock.spark.collecting import rarely_collected
from penstock.spark.witness import Machine, Will, leave_will
from penstock.task.environment import StateStorage, TaskEnvironment
from penstock.task.sampling import sample
from penstock.task.slot import Slot, SlotPhase

_METRICS_INTERVAL_S = 1.0
_REACH_S = 10.0
"""How long a slot tries to reach the driver."""

_FETCHES = 4
"""Files of a snapshot that a slot reads side by side."""
_LAST_WORDS_S = 2.0
"""How long a leaving slot may take to get its last messages out."""
_MACHINE = Machine()


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a slot must know before it can ask for more."""

    job: str
    generation: int
    secret: bytes
    driver: tuple[str, int]
    store_url: str | None
    inline_limit: int
    heartbeat_interval_s: float
    heartbeat_timeout_s: float
    transport: Transport = PLAIN
    job_name: str = ""
    attempt: int = 0
    """Counted from 0, for people; the generation is what counts."""
    log_format: str = TEXT
    local_backup: str | None = None
    """Where copies of snapshot files are kept, if they are; empty for the default directory."""

    def packed(self) -> dict[str, Any]:
        """In plain values, for processes that cannot import this class before they are started."""
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**facts, "transport": self.transport.packed()}

    @classmethod
    def unpacked(cls, facts: dict[str, Any]) -> WorkerInfo:
        """What :meth:`packed` packed."""
        return cls(**{**facts, "transport": unpacked(facts["transport"])})

    def __repr__(self) -> str:
        return f"WorkerInfo({self.job}, generation {self.generation})"

    def will(self, slot: int) -> Will:
        """Whom to tell if the slot's process dies."""
        transport = self.transport.packed()
        return Will(self.driver, self.secret.hex(), self.job, self.generation, slot, transport)


class ControlLink:
    """The slot's end of the control connection. Its methods may be called from any thread."""

    def __init__(self, info: WorkerInfo, slot: int, address: tuple[str, int]) -> None:
        hello = Hello(info.job, info.generation, slot, "control", address)
        self.frames = Lines(info.secret, info.transport).call(info.driver, hello, _REACH_S)
        self._pieces = Pieces()
        self.broken: Exception | None = None
        """Why the thread that sends heartbeats has ended."""
        _give_up_after(self.frames, info.heartbeat_timeout_s)
        self._lock = threading.Lock()

    def report(self, message: FromSlot) -> None:
        """Send a message to the coordinator."""
        data = _bytes_of(message)
        with self._lock:
            queue_message(self.frames, data)
            self.frames.send()

    def receive(self) -> Iterator[bytes | bytearray]:
        """The messages that have come, as bytes. A message may be answered before the next is taken."""
        frames = self.frames.receive()
        while True:
            with self._lock:
                frame = next(frames, None)
            if frame is None:
                return
            message = self._pieces.take(frame)
            if message is not None:
                yield message

    def flush(self) -> bool:
        """Send what the socket takes; true if something still waits."""
        if self.broken is not None:
            raise TransportError(f"the slot cannot send heartbeats: {self.broken!r}") from self.broken
        with self._lock:
            self.frames.send()
            return self.frames.has_output

    def drain(self, timeout_s: float) -> None:
        """Send everything: the last words of a slot say why it leaves."""
        with self._lock:
            self.frames.socket.settimeout(timeout_s)
            self.frames.send()


def _give_up_after(frames: FramedSocket, seconds: float) -> None:
    """A slot whose heartbeats nobody confirms is cut off, and the driver has given it up: it leaves.

    Not for connections between slots: there an unread byte may just mean a slow function.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        frames.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))


def _bytes_of(message: FromSlot) -> bytes:
    """A user's exception may not survive pickling; its text always does."""
    try:
        data = to_bytes(message)
        if isinstance(message, TaskFailed):
            from_bytes(data)
        return data
    except Exception:
        if isinstance(message, TaskFailed):
            error = PenstockError(f"{type(message.error).__name__}: {message.error}")
            return to_bytes(TaskFailed(message.subtask, error))
        raise


class _FileThread:
    """Writes state beside the loop; results are handed back on the loop's thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._pool = ThreadPoolExecutor(1, "penstock-state")
        self._results: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._wake = wake

    def submit(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        def run() -> None:
            try:
                result, error = work(), None
            except BaseException as caught:
                result, error = None, as_error(caught)
            self._results.put(lambda: done(result, error))
            self._wake()

        self._pool.submit(run)

    def deliver(self) -> None:
        """Call the waiting ``done`` callbacks."""
        while True:
            try:
                self._results.get_nowait()()
            except queue.Empty:
                return

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def run_worker(info: WorkerInfo, slot_number: int, host: str) -> None:
    """Run one slot until the coordinator dismisses it or is gone."""
    place = LogPlace(info.job_name, info.attempt)
    with all_formatted(info.log_format), placed(place, whole_process=True):
        _run_slot(info, slot_number, host)


def _run_slot(info: WorkerInfo, slot_number: int, host: str) -> None:
    sys.setswitchinterval(0.0005)
    clock = SystemClock()
    selector = selectors.DefaultSelector()
    who = (SlotId(slot_number), info.job, info.generation, info.secret)
    network = TcpNetwork(*who, selector, host, info.transport)
    link = ControlLink(info, slot_number, network.address)
    leave_will(info.will(slot_number))
    files = _FileThread(network.wake)
    storage, backup = _storages(info, SlotId(slot_number), clock)
    progress = _Progress()
    environment = TaskEnvironment(
        clock,
        storage,
        files,
        link.report,
        _opener(info, storage),
        Generation(info.generation),
        opening=progress.opening,
        wake=network.wake,
        backup=backup,
    )
    slot = Slot(SlotId(slot_number), environment, network)
    selector.register(link.frames.socket, selectors.EVENT_READ, link)
    stop = threading.Event()
    beat = (link, info.heartbeat_interval_s, stop, progress)
    threading.Thread(target=_beat, args=beat, daemon=True).start()
    try:
        with rarely_collected():
            _loop(slot, selector, network, link, files, clock)
    except TransportError as error:
        _tell(link, slot, error)
    except (Exception, SystemExit) as error:
        _tell(link, slot, as_error(error))
        raise
    finally:
        stop.set()
        slot.leave()
        leave_will(None)
        with contextlib.suppress(TransportError):
            link.drain(_LAST_WORDS_S)
        files.close()
        network.close()
        link.frames.close()
        selector.close()


def _loop(
    slot: Slot,
    selector: selectors.BaseSelector,
    network: TcpNetwork,
    link: ControlLink,
    files: _FileThread,
    clock: SystemClock,
) -> None:
    """The loop: step the tasks, push bytes out, take bytes in, wait when there is nothing to do."""
    with ProcessFacts(clock) as facts, WRITTEN.kept():
        _rounds(slot, selector, network, link, files, clock, facts)


def _rounds(
    slot: Slot,
    selector: selectors.BaseSelector,
    network: TcpNetwork,
    link: ControlLink,
    files: _FileThread,
    clock: SystemClock,
    facts: ProcessFacts,
) -> None:
    limit = {"limit_bytes": float(_MACHINE.limit_bytes())}
    report_at = clock.monotonic()
    watching_writes = False
    while slot.phase is not SlotPhase.LEFT:
        files.deliver()  # not once the slot has left: closing a task takes the files away from an upload
        worked = slot.step()
        if clock.monotonic() >= report_at:
            report_at = clock.monotonic() + _METRICS_INTERVAL_S
            used = _MACHINE.used_bytes()
            link.report(replace(slot.heartbeat(), used_bytes=used, process={**facts.now(), **limit}))
        network.send_all()
        if link.flush() != watching_writes:
            watching_writes = not watching_writes
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if watching_writes else 0)
            selector.modify(link.frames.socket, events, link)
        timeout = 0.0 if worked else _patience(slot, clock)
        for key, events in selector.select(timeout):
            if key.data is link:
                if not events & selectors.EVENT_READ:
                    continue
                for message in map(from_bytes, link.receive()):
                    if isinstance(message, TakeSamples):
                        _aside(link, lambda: sample(slot.id))
                    elif isinstance(message, TakeOutput):
                        _aside(link, WRITTEN.taken)
                    slot.handle(message)
            else:
                network.on_ready(key.data, events)


def _aside(link: ControlLink, answer: Callable[[], FromSlot]) -> None:
    """Answer from another thread than the slot's own; nobody waits for that."""

    def look() -> None:
        with contextlib.suppress(TransportError, OSError):
            link.report(answer())

    threading.Thread(target=look, daemon=True, name="penstock-sampling").start()


def _patience(slot: Slot, clock: SystemClock) -> float:
    """How long to wait for input, in seconds."""
    due = slot.next_deadline_ms()
    return 0.5 if due is None else min(0.5, max(0.0, (due - clock.now_ms()) / 1000))


class _Progress:
    """What the slot's own thread is at while it builds tasks; who sends heartbeats tells it."""

    def __init__(self) -> None:
        self.at: Opening | None = None

    def opening(self, opening: Opening) -> None:
        self.at = opening


def _beat(link: ControlLink, interval_s: float, stop: threading.Event, progress: _Progress) -> None:
    told: Opening | None = None
    while not stop.wait(interval_s):
        try:
            now = progress.at
            if now is not None and now is not told:
                told = now
                link.report(now)
            link.report(Heartbeat(used_bytes=_MACHINE.used_bytes()))
        except Exception as error:
            link.broken = error
            return


def _tell(link: ControlLink, slot: Slot, error: Exception) -> None:
    """Say why the slot leaves, if the driver can still be told."""
    with contextlib.suppress(TransportError):
        link.report(TaskFailed(slot.tasks[0].subtask if slot.tasks else slot.here, error))


def _opener(info: WorkerInfo, storage: StateStorage) -> Callable[[str], StateStorage]:
    """What finds the storage that a snapshot is restored from."""

    def open_storage(root: str) -> StateStorage:
        if root == storage.url or root.startswith("driver-memory:"):
            return storage
        opened = open_store(root, create=False)
        opened.at_once = _FETCHES
        if info.store_url is not None:
            opened.inline_limit = info.inline_limit
        return opened

    return open_storage


def _storages(
    info: WorkerInfo, slot: SlotId, clock: SystemClock
) -> tuple[SnapshotStore | LocalBackup, LocalBackup | None]:
    """Where state goes; the same again if it is copied on the way."""
    if info.store_url is None:
        return MemoryStore(), None
    store = open_store(info.store_url)
    store.inline_limit, store.at_once = info.inline_limit, _FETCHES
    backup = local_backup(info.local_backup, store, Generation(info.generation), slot, clock)
    return backup or store, backup
