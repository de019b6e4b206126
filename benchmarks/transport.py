"""Three ways to move batches between two processes: plain sockets, ZeroMQ, Arrow Flight.

Measures, over loopback, the throughput of Arrow record batches of about 1 MB (serialised, sent, read
back as a record batch on the other side) and the round trip of 100-byte messages.  ZeroMQ is measured
only if ``pyzmq`` is installed; it is not a dependency of the project.

    python benchmarks/transport.py [--batches N] [--messages N]
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight

ROWS = 32_768
MESSAGE = b"x" * 100
LENGTH = struct.Struct("<I")
WARMUP = 100


def sample_batch() -> pa.RecordBatch:
    """Four eight-byte columns, 1 MiB in all."""
    columns = [pa.array(np.arange(ROWS, dtype=np.int64) * (n + 1)) for n in range(4)]
    return pa.RecordBatch.from_arrays(columns, names=["a", "b", "c", "d"])


def measure(
    batches: int,
    messages: int,
    put: Callable[[Any], None],
    finish: Callable[[], None],
    ping: Callable[[], None],
) -> dict[str, float]:
    """Time ``put`` for all batches until ``finish`` returns, then ``ping`` message by message."""
    batch = sample_batch()
    started = time.perf_counter()
    for _ in range(batches):
        put(batch)
    finish()
    seconds = time.perf_counter() - started
    for _ in range(WARMUP):
        ping()
    trips = []
    for _ in range(messages):
        began = time.perf_counter()
        ping()
        trips.append((time.perf_counter() - began) * 1e6)
    trips.sort()
    return {
        "MB/s": batches * batch.nbytes / 1e6 / seconds,
        "p50 us": statistics.median(trips),
        "p99 us": trips[int(len(trips) * 0.99)],
    }


def check(batch: pa.RecordBatch) -> None:
    """What every receiver does with a batch, so that nobody wins by not looking."""
    assert batch.num_rows == ROWS and batch.column(3)[ROWS - 1].as_py() == 4 * (ROWS - 1)


# --- plain sockets ------------------------------------------------------------------------------


def exactly(sock: socket.socket, size: int) -> bytearray:
    """Read ``size`` bytes into one buffer."""
    data = bytearray(size)
    view = memoryview(data)
    while view:
        view = view[sock.recv_into(view) :]
    return data


def receive(sock: socket.socket) -> bytearray:
    """One length-prefixed frame."""
    return exactly(sock, LENGTH.unpack(exactly(sock, LENGTH.size))[0])


def send(sock: socket.socket, data: Any) -> None:
    """One frame by scatter-gather, without joining header and body."""
    view = memoryview(data).cast("B")
    sent = sock.sendmsg([LENGTH.pack(view.nbytes), view]) - LENGTH.size
    if sent < view.nbytes:
        sock.sendall(view[sent:])


def socket_server(pipe: Any, batches: int) -> None:
    """Receives batches, answers once, then echoes."""
    listener = socket.create_server(("127.0.0.1", 0))
    pipe.send(listener.getsockname()[1])
    sock, _ = listener.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    schema = pa.ipc.read_schema(pa.py_buffer(receive(sock)))
    for _ in range(batches):
        check(pa.ipc.read_record_batch(pa.py_buffer(receive(sock)), schema))
    send(sock, b"done")
    with contextlib.suppress(OSError, struct.error):
        while True:
            send(sock, receive(sock))


def with_sockets(port: int, batches: int, messages: int) -> dict[str, float]:
    """Arrow IPC messages behind a length, schema once."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    send(sock, sample_batch().schema.serialize())

    def ping() -> None:
        send(sock, MESSAGE)
        receive(sock)

    return measure(
        batches, messages, lambda batch: send(sock, batch.serialize()), lambda: receive(sock), ping
    )


# --- ZeroMQ -------------------------------------------------------------------------------------


def zmq_server(pipe: Any, batches: int) -> None:
    """The same conversation on a PAIR socket."""
    import zmq

    sock = zmq.Context().socket(zmq.PAIR)
    pipe.send(sock.bind_to_random_port("tcp://127.0.0.1"))
    schema = pa.ipc.read_schema(pa.py_buffer(sock.recv()))
    for _ in range(batches):
        check(pa.ipc.read_record_batch(pa.py_buffer(sock.recv(copy=False).buffer), schema))
    sock.send(b"done")
    while True:
        sock.send(sock.recv())


def with_zmq(port: int, batches: int, messages: int) -> dict[str, float]:
    """Arrow IPC messages as ZeroMQ messages, sent without copying."""
    import zmq

    sock = zmq.Context().socket(zmq.PAIR)
    sock.connect(f"tcp://127.0.0.1:{port}")
    sock.send(sample_batch().schema.serialize())

    def ping() -> None:
        sock.send(MESSAGE)
        sock.recv()

    def put(batch: Any) -> None:
        sock.send(batch.serialize(), copy=False)

    return measure(batches, messages, put, lambda: sock.recv(), ping)


# --- Arrow Flight -------------------------------------------------------------------------------


class FlightServer(flight.FlightServerBase):
    """Takes batches on one stream, echoes small metadata on another."""

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        for chunk in reader:
            check(chunk.data)
        writer.write(pa.py_buffer(b"done"))

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        for chunk in reader:
            writer.write_metadata(chunk.app_metadata)


def flight_server(pipe: Any, batches: int) -> None:
    """Serve until ended."""
    server = FlightServer("grpc://127.0.0.1:0")
    pipe.send(server.port)
    server.serve()


def with_flight(port: int, batches: int, messages: int) -> dict[str, float]:
    """One DoPut stream for batches, one DoExchange stream for messages."""
    client = flight.connect(f"grpc://127.0.0.1:{port}")
    writer, answers = client.do_put(flight.FlightDescriptor.for_path("data"), sample_batch().schema)
    out, back = client.do_exchange(flight.FlightDescriptor.for_path("ping"))
    message = pa.py_buffer(MESSAGE)

    def finish() -> None:
        writer.done_writing()
        answers.read()

    def ping() -> None:
        out.write_metadata(message)
        back.read_chunk()

    result = measure(batches, messages, writer.write_batch, finish, ping)
    out.done_writing()
    return result


# --- running ------------------------------------------------------------------------------------


def contestants() -> Iterator[tuple[str, Any, Any]]:
    """Name, server, client."""
    yield "sockets", socket_server, with_sockets
    try:
        import zmq
    except ImportError:
        print("pyzmq is not installed: ZeroMQ is left out")
    else:
        yield f"ZeroMQ {zmq.zmq_version()}", zmq_server, with_zmq
    yield f"Flight {pa.__version__}", flight_server, with_flight


def run_once(server: Any, client: Any, batches: int, messages: int) -> dict[str, float]:
    """One round with a fresh server process."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=server, args=(theirs, batches), daemon=True)
    process.start()
    try:
        result: dict[str, float] = client(ours.recv(), batches, messages)
    finally:
        process.terminate()
        process.join()
    return result


def main() -> None:
    """Rounds take turns, so that a busy moment does not fall on one contestant; medians and ranges."""
    options = argparse.ArgumentParser(description="Compare transports over loopback")
    options.add_argument("--batches", type=int, default=1000)
    options.add_argument("--messages", type=int, default=3000)
    options.add_argument("--rounds", type=int, default=7)
    chosen = options.parse_args()
    runners = list(contestants())
    results: dict[str, list[dict[str, float]]] = {name: [] for name, _, _ in runners}
    for _ in range(chosen.rounds):
        for name, server, client in runners:
            results[name].append(run_once(server, client, chosen.batches, chosen.messages))
    columns = ("MB/s", "p50 us", "p99 us")
    print(f"median (lowest to highest) of {chosen.rounds} rounds")
    print("transport       " + "".join(f"{column:>24}" for column in columns))
    for name, rounds in results.items():
        cells = []
        for column in columns:
            values = sorted(entry[column] for entry in rounds)
            cells.append(f"{statistics.median(values):.0f} ({values[0]:.0f} to {values[-1]:.0f})")
        print(f"{name:<16}" + "".join(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    main()
