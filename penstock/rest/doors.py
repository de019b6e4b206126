"""The control plane's listening sockets, opened before any library of the server is loaded."""

from __future__ import annotations

import errno
import ipaddress
import secrets
import socket
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path

from penstock.core.config import Configuration
from penstock.core.errors import ConfigError
from penstock.core.rest_options import (
    REST_ADDRESS,
    REST_BIND_ADDRESS,
    REST_KEYSTORE,
    REST_KEYSTORE_PASSWORD,
    REST_PLAIN,
    REST_PORT,
    REST_TLS,
    REST_TOKEN_FILE,
)

_TRIED = 100
_BACKLOG = 1024
_LOCAL = ("localhost", "127.0.0.1", "::1")
_SHORTEST = 16


@dataclass(frozen=True, slots=True)
class Door:
    """A port that listens."""

    socket: socket.socket
    port: int
    wanted: int
    """The port that was asked for; another one is said."""
    url: str
    scheme: str
    hosts: frozenset[str] | None
    """Names by which it may be called, with ``*`` also any address; ``None`` if only its user can call."""
    tls: ssl.SSLContext | None = None


def open_door(configuration: Configuration) -> Door:
    """Listen on the port that the settings name, or on the next that is free."""
    address, wanted = configuration.get(REST_BIND_ADDRESS), configuration.get(REST_PORT)
    tls = _tls(configuration) if configuration.get(REST_TLS) else None
    is_open = not _is_loopback(address)
    if is_open and tls is None and not configuration.get(REST_PLAIN):
        raise ConfigError(
            f"{REST_BIND_ADDRESS.key} {address} opens it to the network, tokens would cross that in clear: "
            f"set {REST_TLS.key} and {REST_KEYSTORE.key}, or {REST_PLAIN.key} if something before it encrypts"
        )
    opened = _listen(address, wanted)
    port = int(opened.getsockname()[1])
    named = configuration.get(REST_ADDRESS)
    hosts = {*_LOCAL, address, *([named.lower()] if named else [])}
    if is_open:
        hosts |= {"*", socket.gethostname().lower(), socket.getfqdn().lower()}
    scheme = "https" if tls is not None else "http"
    shown = named or (socket.gethostname() if address in ("0.0.0.0", "::", "") else address)
    shown = f"[{shown}]" if ":" in shown else shown
    return Door(opened, port, wanted, f"{scheme}://{shown}:{port}", scheme, frozenset(hosts), tls)


def private_door(opened: socket.socket) -> Door:
    """The door for the command line: a socket that its user alone can reach, or else a loopback port."""
    if opened.family not in (socket.AF_INET, socket.AF_INET6):
        return Door(opened, 0, 0, "", "http", None)
    port = int(opened.getsockname()[1])
    return Door(opened, port, port, "", "http", frozenset(_LOCAL))


def _listen(address: str, wanted: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    last = min(wanted + _TRIED, 65_536) if wanted else 1
    for port in range(wanted, last):
        try:
            return socket.create_server((address, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    raise ConfigError(f"no port from {wanted} to {last - 1} is free (rest.port); 0 is any that is")


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _tls(configuration: Configuration) -> ssl.SSLContext:
    store = configuration.get(REST_KEYSTORE)
    if store is None:
        raise ConfigError(
            f"{REST_TLS.key} needs {REST_KEYSTORE.key}: a PEM file with the key and the certificate"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(store, password=configuration.get(REST_KEYSTORE_PASSWORD) or "")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{REST_KEYSTORE.key}: {store} cannot be used: {error}") from error
    return context


def token_of(configuration: Configuration) -> str:
    """The token that requests must show: that of the file in the settings, or a new one."""
    named = configuration.get(REST_TOKEN_FILE)
    if named is None:
        return secrets.token_hex(32)
    path = Path(named).expanduser()
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{REST_TOKEN_FILE.key}: {path} cannot be read: {error}") from error
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigError(f"{REST_TOKEN_FILE.key}: others may read {path}; chmod 600 it")
    if len(text) < _SHORTEST or not text.isascii() or not text.isprintable():
        raise ConfigError(f"{REST_TOKEN_FILE.key}: {path} must hold {_SHORTEST} or more plain characters")
    return text
