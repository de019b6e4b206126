"""Lines under TLS: who gets one, who does not and hears why, and what somebody in between can see or do."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
import selectors
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
from eavesdropper import Between, Bomb
from progress import until

from penstock.core.clock import ManualClock, SystemClock
from penstock.core.errors import TransportError
from penstock.core.ids import Generation, SlotId
from penstock.exchange import lines as lines_module
from penstock.exchange.acceptor import Refusals
from penstock.exchange.auth import Hello, new_secret
from penstock.exchange.control_frames import from_bytes
from penstock.exchange.frames import HEADER, FramedSocket, FrameKind
from penstock.exchange.lines import PLAIN, Caller, Lines, Transport, on_one_host, unpacked
from penstock.exchange.network import TcpNetwork
from penstock.exchange.tls import Patience, TlsSocket
from penstock.spark.control import ControlServer
from penstock.spark.transport import make
from penstock.spark.worker import ControlLink, WorkerInfo
from tests.patience import PATIENCE_S

SECRET = new_secret()
HELLO = Hello("job", 3, 1, "data")
CERTIFICATE = make("one", SystemClock())
OTHER = make("another", SystemClock())
LONG_AGO = make("old", ManualClock(0))
TLS = Transport(CERTIFICATE, always=True)
WHERE_NEEDED = Transport(CERTIFICATE)


def connect(
    caller: Transport, server: Transport, between: bool = False
) -> tuple[FramedSocket | TransportError, Caller | TransportError, Between | None]:
    """What either side got or raised."""
    results: dict[str, Any] = {}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        middle = Between(listener.getsockname()[:2]) if between else None

        def answer() -> None:
            sock, _ = listener.accept()
            try:
                results["server"] = Lines(SECRET, server).answer(sock, "job", 3)
            except TransportError as error:
                results["server"] = error
                sock.close()

        thread = threading.Thread(target=answer)
        thread.start()
        address = middle.address if middle is not None else listener.getsockname()[:2]
        try:
            results["client"] = Lines(SECRET, caller).call(address, HELLO, PATIENCE_S)
        except TransportError as error:
            results["client"] = error
        thread.join(PATIENCE_S)
    return results["client"], results["server"], middle


def joined(between: bool = False) -> tuple[FramedSocket, FramedSocket, Between | None]:
    client, server, middle = connect(TLS, TLS, between)
    assert isinstance(client, FramedSocket) and isinstance(server, Caller), (client, server)
    assert server.hello == HELLO
    return client, server.frames, middle


def test_a_certificate_travels_in_plain_values_and_keeps_its_key_to_itself() -> None:
    assert unpacked(pickle.loads(pickle.dumps(TLS.packed()))) == TLS
    assert unpacked(PLAIN.packed()) == PLAIN
    assert CERTIFICATE.passphrase not in repr(TLS) and "PRIVATE" not in repr(TLS)
    assert "ENCRYPTED" in CERTIFICATE.key


def test_a_key_is_on_no_disk_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    Lines(SECRET, TLS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sizes", [[0], [1], [16384], [16385, 21, 5], [100] * 300, [3_000_000, 7, 3_000_000]])
def test_frames_of_every_size_come_through_both_ways(sizes: list[int]) -> None:
    client, server, _ = joined()
    payloads = [bytes([n % 251]) * size for n, size in enumerate(sizes)]
    for frames in (client, server):
        for number, payload in enumerate(payloads):
            frames.queue(
                FrameKind.ROWS, number, 0, 0, 0, payload[: len(payload) // 3], payload[len(payload) // 3 :]
            )
    got: dict[FramedSocket, list[bytes]] = {client: [], server: []}
    selector = selectors.DefaultSelector()
    for frames in got:
        selector.register(frames.socket, selectors.EVENT_READ, frames)
    while any(len(found) < len(sizes) for found in got.values()):
        client.send()
        server.send()
        waits = client.has_output or server.has_output
        for key, _ in selector.select(0.05 if waits else PATIENCE_S):
            got[key.data] += [bytes(frame.payload) for frame in key.data.receive()]
    assert got[client] == payloads and got[server] == payloads
    assert not client.has_output and not server.has_output
    selector.close()
    client.close()
    server.close()


def test_a_frame_in_many_small_records_is_read_without_another_wake_up() -> None:
    """Whatever TLS has taken from the socket is handed on: the selector does not know of it."""
    client, server, _ = joined()
    for number in range(2000):
        client.queue(FrameKind.CREDIT, number, 0, 0, 0)
        client.send()
    assert not client.has_output
    found = 0
    selector = selectors.DefaultSelector()
    selector.register(server.socket, selectors.EVENT_READ)
    while found < 2000:
        assert selector.select(PATIENCE_S), f"{found} frames came, and nobody says that there are more"
        found += len(list(server.receive()))
    selector.close()
    client.close()
    server.close()


def tls_pair() -> tuple[TlsSocket, TlsSocket]:
    left, right = socket.socketpair()
    ends = [
        TlsSocket(sock, lines_module._context(CERTIFICATE, server), server)
        for sock, server in ((left, False), (right, True))
    ]
    threads = [threading.Thread(target=end.shake_hands, args=(Patience(PATIENCE_S),)) for end in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    return ends[0], ends[1]


@pytest.mark.parametrize("pieces", [(5,), (2, 3)])
def test_what_comes_right_behind_a_greeting_is_seen_by_the_selector(pieces: tuple[int, ...]) -> None:
    """A driver sends the plan as soon as a slot is greeted, and then waits for its answer."""
    sender, receiver = tls_pair()
    sender.sendall(b"hello")
    sender.sendall(b"frame")
    receiver.settimeout(PATIENCE_S)
    assert b"".join(receiver.recv(count) for count in pieces) == b"hello"
    receiver.setblocking(False)
    selector = selectors.DefaultSelector()
    selector.register(receiver, selectors.EVENT_READ)
    assert selector.select(0), "the frame has to be where the selector sees it"
    assert receiver.recv(1 << 18) == b"frame"
    selector.close()
    sender.close()
    receiver.close()


def test_nobody_in_between_sees_what_is_said() -> None:
    marker = b"a-marker-that-nobody-must-see"
    client, server, middle = joined(between=True)
    assert middle is not None
    client.queue(FrameKind.ROWS, 0, 0, 0, 0, marker)
    client.send()
    server.socket.settimeout(PATIENCE_S)
    server.queue(FrameKind.ROWS, 0, 0, 0, 0, marker)
    server.send()
    assert [bytes(frame.payload) for frame in server.receive()] == [marker]
    client.socket.settimeout(PATIENCE_S)
    assert [bytes(frame.payload) for frame in client.receive()] == [marker]
    seen = bytes(middle.to_server + middle.to_caller)
    assert len(seen) > 1000 and marker not in seen and b"generation" not in seen
    middle.close()


def test_a_frame_put_into_a_line_under_tls_is_refused(tmp_path: Path) -> None:
    bomb = pickle.dumps(Bomb(tmp_path / "run"))
    for kind in (FrameKind.CONTROL, FrameKind.ROWS):
        _, server, middle = joined(between=True)
        assert middle is not None and middle.callee is not None
        middle.callee.sendall(HEADER.pack(len(bomb), kind, 0, 0, 0, 0) + bomb)
        server.socket.settimeout(PATIENCE_S)
        with pytest.raises(TransportError, match="under TLS"):
            list(server.receive())
        middle.close()
    assert not (tmp_path / "run").exists()


def expect_refusal(caller: Transport, server: Transport, client_hears: str, server_says: str) -> None:
    heard, said, _ = connect(caller, server)
    assert isinstance(said, TransportError) and server_says in str(said), said
    assert isinstance(heard, TransportError) and client_hears in str(heard), heard


def test_a_certificate_of_another_job_is_refused() -> None:
    expect_refusal(
        Transport(OTHER, always=True), TLS, "not one of this job", "does not accept our certificate"
    )
    trusting = dataclasses.replace(OTHER, trusted=CERTIFICATE.trusted)
    expect_refusal(
        Transport(trusting, always=True), TLS, "does not accept our certificate", "belongs to another job"
    )


def test_no_certificate_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    make_context = lines_module._context

    def bare(certificate: Any, server: bool) -> ssl.SSLContext:
        context = make_context(certificate, server)
        if not server:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    monkeypatch.setattr(lines_module, "_context", bare)
    expect_refusal(TLS, TLS, "this process showed none", "the peer showed no certificate")


def test_an_expired_certificate_is_refused_with_the_way_out() -> None:
    expired = dataclasses.replace(LONG_AGO, trusted=CERTIFICATE.trusted)
    both = dataclasses.replace(CERTIFICATE, trusted=CERTIFICATE.trusted + LONG_AGO.trusted)
    expect_refusal(
        Transport(expired, always=True),
        Transport(both, always=True),
        "our certificate has expired; put a new one into security.ssl.internal.keystore",
        "the peer's certificate has expired; put a new one into security.ssl.internal.keystore",
    )


def test_only_the_certificate_that_is_named_will_do() -> None:
    der = ssl.PEM_cert_to_DER_cert(CERTIFICATE.chain)
    right = dataclasses.replace(CERTIFICATE, fingerprint=hashlib.sha1(der).hexdigest())
    wrong = dataclasses.replace(CERTIFICATE, fingerprint="0" * 40)
    assert isinstance(connect(Transport(right, True), Transport(right, True))[0], FramedSocket)
    heard, _, _ = connect(Transport(wrong, True), TLS)
    assert isinstance(heard, TransportError) and "cert.fingerprint" in str(heard)


def test_who_has_the_certificate_but_not_the_secret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        errors: list[TransportError] = []

        def answer() -> None:
            sock, _ = listener.accept()
            with sock, pytest.raises(TransportError) as caught:
                Lines(SECRET, TLS).answer(sock, "job", 3)
            errors.append(caught.value)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(TransportError, match="secret"):
            Lines(new_secret(), TLS).call(listener.getsockname()[:2], HELLO, PATIENCE_S)
        thread.join(PATIENCE_S)
    assert len(errors) == 1


# --- where it is used ---------------------------------------------------------------------------


def kind_of_line(caller: Transport, server: Transport, monkeypatch: pytest.MonkeyPatch, near: bool) -> str:
    monkeypatch.setattr(lines_module, "on_one_host", lambda sock: near)
    client, answered, _ = connect(caller, server)
    if isinstance(client, TransportError) or isinstance(answered, TransportError):
        return f"none: {client}"
    return "plain" if isinstance(client.socket, socket.socket) else "tls"


def test_tls_is_for_peers_on_other_hosts_unless_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kind_of_line(WHERE_NEEDED, WHERE_NEEDED, monkeypatch, near=True) == "plain"
    assert kind_of_line(WHERE_NEEDED, WHERE_NEEDED, monkeypatch, near=False) == "tls"
    assert kind_of_line(TLS, TLS, monkeypatch, near=True) == "tls"
    assert kind_of_line(PLAIN, PLAIN, monkeypatch, near=False) == "plain"


def test_a_plain_line_from_another_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for server in (TLS, WHERE_NEEDED):
        heard = kind_of_line(PLAIN, server, monkeypatch, near=False)
        assert heard.startswith("none: the peer refused the connection: only lines under TLS")


def test_addresses_say_whether_two_ends_are_on_one_host() -> None:
    class Fake:
        family = socket.AF_INET

        def __init__(self, here: str, there: str) -> None:
            self._here, self._there = (here, 1), (there, 2)

        def getsockname(self) -> tuple[str, int]:
            return self._here

        def getpeername(self) -> tuple[str, int]:
            return self._there

    def near(here: str, there: str) -> bool:
        return on_one_host(Fake(here, there))  # type: ignore[arg-type]

    assert near("127.0.0.1", "127.0.0.1") and near("127.0.0.1", "127.0.1.1") and near("::1", "::1")
    assert near("10.0.0.7", "10.0.0.7") and near("::ffff:10.0.0.7", "10.0.0.7")
    assert near("fe80::1%eth0", "fe80::1%eth0")
    assert not near("10.0.0.7", "10.0.0.8") and not near("127.0.0.1", "10.0.0.7")
    left, right = socket.socketpair()
    assert on_one_host(left)
    left.close()
    right.close()


# --- at the doors of a job ----------------------------------------------------------------------


def test_a_peer_without_the_certificate_is_refused_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    selector = selectors.DefaultSelector()
    network = TcpNetwork(SlotId(2), "job", 3, SECRET, selector, transport=TLS)
    stranger = Lines(SECRET, Transport(OTHER, always=True))
    try:
        with caplog.at_level("WARNING", "penstock"):
            with pytest.raises(TransportError, match="not one of this job"):
                stranger.call(network.address, HELLO, PATIENCE_S)
            until(lambda: caplog.messages, "the refusal is logged")
        assert "penstock-data: a caller from 127.0.0.1 was not let in" in caplog.messages[0]
        right = Lines(SECRET, TLS).call(network.address, HELLO, PATIENCE_S)
        network.connect({SlotId(1): ("127.0.0.1", 9)}, timeout_s=PATIENCE_S)
        right.close()
    finally:
        network.close()
        selector.close()


def test_a_flood_of_refusals_is_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    refusals = Refusals("door", clock)
    for _ in range(1000):
        refusals.note("10.0.0.9", TransportError("wrong secret"))
    clock.advance(11_000)
    refusals.note("10.0.0.9", TransportError("wrong secret"))
    assert len(caplog.messages) == 2
    assert caplog.messages[1].endswith("wrong secret (999 more since the last such line)")


def test_a_control_connection_under_tls_carries_messages_of_two_threads_both_ways() -> None:
    """One thread sends heartbeats while the other reads: TLS must not be used by both at once."""
    heard: list[Any] = []
    came = threading.Event()
    server = ControlServer(
        "job", SECRET, "127.0.0.1", SystemClock(), 60.0, lambda hello: came.set(),
        lambda generation, slot, message: heard.append(message), lambda *lost: heard.append(lost),
        transport=TLS,
    )  # fmt: skip
    server.expect(Generation(3))
    link = ControlLink(WorkerInfo("job", 3, SECRET, server.address, None, 0, 1.0, 60.0, TLS), 1, ("h", 1))
    assert came.wait(PATIENCE_S), "what is sent before is lost"
    beats = threading.Thread(target=lambda: [link.report(n) for n in range(500)])  # type: ignore[arg-type]
    beats.start()
    for n in range(500):
        server.send(SlotId(1), bytes(n * 10))  # type: ignore[arg-type]
    got: list[Any] = []
    while len(got) < 500:
        link.flush()
        got += [from_bytes(message) for message in link.receive()]
    beats.join(PATIENCE_S)
    until(lambda: (link.flush(), len(heard) >= 500)[1], "all heartbeats have come")
    assert got == [bytes(n * 10) for n in range(500)] and heard == list(range(500))
    link.frames.close()
    server.close()
