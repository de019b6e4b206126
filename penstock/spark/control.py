"""The driver's end of the control connections: one thread serves all slots of the current attempt.

No error ends that thread: what goes wrong with one slot costs that slot, anything else costs all slots that
are connected.  Either way the coordinator hears it, and decides.
"""

from __future__ import annotations

import contextlib
import queue
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle

from penstock.core.clock import Clock
from penstock.core.discreet import log_of
from penstock.core.errors import TransportError
from penstock.core.ids import Generation, SlotId
from penstock.core.messages import Deploy, FromSlot, ToSlot
from penstock.core.security_options import CONTROL_PORT
from penstock.exchange.acceptor import Door, Ports, listen
from penstock.exchange.auth import Hello
from penstock.exchange.control_frames import Pieces, from_bytes, queue_message, to_bytes
from penstock.exchange.frames import FramedSocket
from penstock.exchange.lines import PLAIN, Caller, Lines, Transport

OnHello = Callable[[Hello], None]
OnMessage = Callable[[Generation, SlotId, FromSlot], None]
OnLost = Callable[[Generation, SlotId, str], None]
OnWords = Callable[[Generation, SlotId, str], None]

_log = log_of(__name__)
_SILENCE_S = 1.0
"""How often it is looked whether all slots send heartbeats."""
_BREATH_S = 0.1
"""How long the thread rests behind an error that was not one connection's, so as not to spin."""


class _Connection:
    def __init__(self, hello: Hello, frames: FramedSocket, now: float) -> None:
        self.generation = Generation(hello.generation)
        self.slot = SlotId(hello.slot)
        self.frames = frames
        self.pieces = Pieces()
        self.last_heard = now


class ControlServer:
    """Accepts slots of one generation at a time and carries messages both ways.

    Callbacks run on the server's thread and must not block.
    """

    def __init__(
        self,
        job: str,
        secret: bytes,
        host: str,
        clock: Clock,
        heartbeat_timeout_s: float,
        on_hello: OnHello,
        on_message: OnMessage,
        on_lost: OnLost,
        on_words: OnWords = lambda generation, slot, words: None,
        transport: Transport = PLAIN,
    ) -> None:
        self._job = job
        self._lines = Lines(secret, transport)
        self._clock = clock
        self._timeout = heartbeat_timeout_s
        self._silence_due = 0.0
        self._on_hello, self._on_message, self._on_lost = on_hello, on_message, on_lost
        self._on_words = on_words
        self._generation = Generation(-1)
        self._connections: dict[SlotId, _Connection] = {}
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._selector.register(self._wake_in, selectors.EVENT_READ, None)
        self._listener = listen(host, Ports(CONTROL_PORT.key, transport.control_ports))
        self._closed = threading.Event()
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        threading.Thread(target=self._serve, daemon=True, name="penstock-control-serve").start()
        Door(self._listener, "penstock-control", self._greet, self._on_greeted)

    # --- from other threads -----------------------------------------------------------------

    def expect(self, generation: Generation) -> None:
        """From now on only slots of this generation are let in; the others are dropped."""
        self._generation = generation
        self._call(self._drop_old)

    def send(self, slot: SlotId, message: ToSlot) -> None:
        """Queue a message; lost if the slot is not connected."""
        data = encoded(message)
        self._call(lambda: self._queue(slot, data))

    def close(self) -> None:
        """Stop serving."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._call(self._closed.set)

    def _call(self, action: Callable[[], None]) -> None:
        self._inbox.put(action)
        with contextlib.suppress(OSError):
            self._wake_out.send(b"\0")

    # --- the door's threads -----------------------------------------------------------------

    def _greet(self, sock: socket.socket) -> Caller:
        return self._lines.answer(sock, self._job, int(self._generation))

    def _on_greeted(self, caller: Caller, sock: socket.socket) -> None:
        self._call(lambda: self._admit(*caller))

    # --- the serving thread -----------------------------------------------------------------

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                self._turn()
            except Exception as error:
                _log.exception("the driver's control connections are given up")
                for connection in list(self._connections.values()):
                    self._lose(connection, f"the driver could not serve it: {error!r}")
                self._closed.wait(_BREATH_S)
        for connection in list(self._connections.values()):
            connection.frames.close()
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()

    def _turn(self) -> None:
        for key, events in self._selector.select(1.0):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    self._wake_in.recv(4096)
            else:
                self._on_ready(key.data, events)
        while True:
            try:
                action = self._inbox.get_nowait()
            except queue.Empty:
                break
            action()
        self._check_silence()

    def _admit(self, hello: Hello, frames: FramedSocket) -> None:
        if hello.generation != self._generation:
            frames.close()
            return
        if hello.words is not None:
            frames.close()
            self._on_words(Generation(hello.generation), SlotId(hello.slot), hello.words)
            return
        connection = _Connection(hello, frames, self._clock.monotonic())
        before = self._connections.get(connection.slot)
        if before is not None:
            self._forget(before)  # its end would be taken for that of the slot, which has called again
        with self._losing(connection):
            self._connections[connection.slot] = connection
            self._selector.register(frames.socket, selectors.EVENT_READ, connection)
            self._on_hello(hello)

    def _queue(self, slot: SlotId, data: bytes) -> None:
        connection = self._connections.get(slot)
        if connection is not None:
            with self._losing(connection):
                queue_message(connection.frames, data)
                connection.frames.send_by(self._selector, connection)

    def _on_ready(self, connection: _Connection, events: int) -> None:
        with self._losing(connection):
            if events & selectors.EVENT_READ:
                for frame in connection.frames.receive():
                    connection.last_heard = self._clock.monotonic()
                    payload = connection.pieces.take(frame)
                    if payload is not None:
                        self._on_message(connection.generation, connection.slot, _message_in(payload))
            if events & selectors.EVENT_WRITE:
                connection.frames.send_by(self._selector, connection)

    @contextlib.contextmanager
    def _losing(self, connection: _Connection) -> Iterator[None]:
        """An error in the block costs this connection."""
        try:
            yield
        except TransportError as error:
            self._lose(connection, str(error))
        except Exception as error:
            _log.exception("the control connection of slot %d is given up", connection.slot)
            self._lose(connection, f"the driver could not serve it: {error!r}")

    def _check_silence(self) -> None:
        now = self._clock.monotonic()
        if now < self._silence_due:
            return  # with many slots there are many turns
        self._silence_due = now + min(_SILENCE_S, self._timeout / 10)
        for connection in list(self._connections.values()):
            if now - connection.last_heard > self._timeout:
                self._lose(connection, f"no heartbeat for {self._timeout:g} s")

    def _lose(self, connection: _Connection, reason: str) -> None:
        self._forget(connection)
        try:
            self._on_lost(connection.generation, connection.slot, reason)
        except Exception:
            _log.exception("nobody heard that slot %d was lost: %s", connection.slot, reason)

    def _drop_old(self) -> None:
        for connection in list(self._connections.values()):
            if connection.generation != self._generation:
                self._forget(connection)

    def _forget(self, connection: _Connection) -> None:
        if self._connections.get(connection.slot) is connection:
            del self._connections[connection.slot]
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.frames.socket)
        connection.frames.close()


def encoded(message: ToSlot) -> bytes:
    """What a message to a slot is on its way."""
    # The classes of the script arrive with the plan: what comes with it cannot name them yet.
    return to_bytes(message, cloudpickle.dumps) if isinstance(message, Deploy) else to_bytes(message)


def _message_in(payload: bytes | bytearray) -> Any:
    """A slot's message; one that cannot be read here costs the slot, not the thread that serves all."""
    try:
        return from_bytes(payload)
    except Exception as error:
        raise TransportError(
            f"a message cannot be read in the driver ({error!r}); if it names a module of yours, install it "
            "beside the driver too"
        ) from error
