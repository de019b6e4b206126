"""Lines between the processes of a job: what guards one is decided here, by both ends alike.

====================================  ===============================================================
the peer is                           the line is
====================================  ===============================================================
on another host                       under TLS; each side shows the job's certificate
on this host                          plain, and every frame is sealed (``frames.py``)
anywhere, ``security.ssl.internal``   under TLS if ``enabled: true``, plain and sealed if ``false``
====================================  ===============================================================

Behind that, always, comes the greeting (``auth.py``).  Neither side believes the other about where it is:
the caller looks at the connection it has made, who answers at the one it got, and refuses a plain one from
elsewhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import socket
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from penstock.core.errors import TransportError, UnansweredError
from penstock.core.retrying import retry
from penstock.exchange import auth
from penstock.exchange.auth import Hello, refuse
from penstock.exchange.frames import FramedSocket
from penstock.exchange.tls import Patience, TlsSocket

_PAUSES_S = (0.1, 0.3, 1.0, 2.0)


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a process of a job shows to the others, and by what it knows them. PEM throughout."""

    chain: str
    key: str = field(repr=False)
    """Under the passphrase, as it may touch a disk for a moment."""
    passphrase: str = field(repr=False)
    trusted: str = field(repr=False)
    fingerprint: str | None = None
    """SHA-1 of the only certificate that will do, in hexadecimal; any trusted one if not given."""


@dataclass(frozen=True, slots=True)
class Transport:
    """How the processes of a job talk to each other; the same in all of them."""

    certificate: Certificate | None = None
    """``None`` is without TLS."""
    always: bool = False
    """TLS also on one host."""
    control_ports: str = "0"
    data_ports: str = "0"

    def packed(self) -> dict[str, Any]:
        """In plain values, for processes that cannot import this class before they are started."""
        return asdict(self)


def unpacked(packed: dict[str, Any]) -> Transport:
    """What :meth:`Transport.packed` packed."""
    certificate = packed["certificate"]
    return Transport(**{**packed, "certificate": None if certificate is None else Certificate(**certificate)})


PLAIN = Transport()
"""Without TLS; frames are sealed."""


class Caller(NamedTuple):
    """Who is proven to be there, and the line to it."""

    hello: Hello
    frames: FramedSocket


class Lines:
    """Opens lines to other processes of a job, and answers theirs."""

    def __init__(self, secret: bytes, transport: Transport) -> None:
        self._secret = secret
        self._transport = transport
        self._contexts: dict[bool, ssl.SSLContext] = {}
        if transport.certificate is not None:
            self._contexts = {server: _context(transport.certificate, server) for server in (False, True)}

    def call(self, address: tuple[str, int], hello: Hello, timeout_s: float) -> FramedSocket:
        """A line to who listens there; raises :class:`TransportError`.

        Who is hung up on without a word tries again a few times: the peer may be under siege.
        """
        return retry(lambda: self._call(address, hello, timeout_s), UnansweredError, _PAUSES_S)

    def _call(self, address: tuple[str, int], hello: Hello, timeout_s: float) -> FramedSocket:
        try:
            sock = socket.create_connection(address, timeout=timeout_s)
        except OSError as error:
            raise TransportError(f"{address[0]}:{address[1]} cannot be reached: {error}") from error
        with _closing_on_error(sock):
            patience = Patience(auth.TIMEOUT_S)
            if not self._may_be_plain(sock):
                wire = self._under_tls(sock, False, patience)
                auth.call(wire, hello, self._secret, patience)
                return FramedSocket(wire)
            return FramedSocket(sock, auth.call(sock, hello, self._secret, patience))

    def answer(self, sock: socket.socket, job: str, generation: int) -> Caller:
        """The line of a caller; raises :class:`TransportError` for who must not come in."""
        patience = Patience(auth.TIMEOUT_S)
        facts = (job, generation, self._secret, patience)
        if self._contexts and _first_byte(sock, patience) == auth.TLS_FIRST:
            wire = self._under_tls(sock, True, patience)
            return Caller(auth.answer(wire, *facts).hello, FramedSocket(wire))
        if not self._may_be_plain(sock):
            raise refuse(sock, "only lines under TLS are taken here, and this one is plain")
        hello, seal = auth.answer(sock, *facts)
        return Caller(hello, FramedSocket(sock, seal))

    def _may_be_plain(self, sock: socket.socket) -> bool:
        return not self._contexts or (not self._transport.always and on_one_host(sock))

    def _under_tls(self, sock: socket.socket, server: bool, patience: Patience) -> TlsSocket:
        wire = TlsSocket(sock, self._contexts[server], server)
        wire.shake_hands(patience)
        certificate = self._transport.certificate
        wanted = certificate.fingerprint if certificate is not None else None
        if wanted is not None and hashlib.sha1(wire.certificate()).hexdigest() != wanted:
            raise TransportError(
                "the peer's certificate is trusted, but not the one that "
                "security.ssl.internal.cert.fingerprint names"
            )
        return wire


def rehearse(certificate: Certificate) -> None:
    """Greet oneself, in memory; raises ``ssl.SSLError`` where two processes of the job would be refused."""
    sides = [_context(certificate, server) for server in (False, True)]
    wires = [ssl.MemoryBIO(), ssl.MemoryBIO()]
    client = sides[0].wrap_bio(wires[0], wires[1], server_side=False)
    server = sides[1].wrap_bio(wires[1], wires[0], server_side=True)
    for side in (client, server, client, server):  # what TLS 1.3 takes, and then each has seen the other
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()


def on_one_host(sock: socket.socket) -> bool:
    """Whether both ends are on this host: they have one address, or loopback addresses.

    A packet from elsewhere that claims to be from here never becomes a connection.
    """
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return True
    here, there = (_address(name[0]) for name in (sock.getsockname(), sock.getpeername()))
    return here == there or (here.is_loopback and there.is_loopback)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    found = ipaddress.ip_address(text)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _first_byte(sock: socket.socket, patience: Patience) -> int:
    sock.settimeout(patience.left())
    try:
        data = sock.recv(1, socket.MSG_PEEK)
    except OSError as error:
        raise TransportError(f"the connection broke before a word was said: {error}") from error
    if not data:
        raise TransportError("the peer closed the connection without a word")
    return data[0]


@contextlib.contextmanager
def _closing_on_error(sock: socket.socket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        sock.close()
        raise


def _context(certificate: Certificate, server: bool) -> ssl.SSLContext:
    """Either side shows its certificate. Names in it say nothing: who has the key is of the job."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if server:
        context.num_tickets = 0
    context.load_verify_locations(cadata=certificate.trusted)
    with tempfile.NamedTemporaryFile("w", prefix="penstock-", suffix=".pem", encoding="ascii") as file:
        file.write(certificate.key + certificate.chain)
        file.flush()
        context.load_cert_chain(file.name, password=certificate.passphrase)
    return context
