"""A PostgreSQL that keeps prepared transactions."""

from __future__ import annotations

import signal
import struct
from collections.abc import Sequence

from penstock.testing.servers.process import ask
from penstock.testing.servers.server import MISSING, Server, find_program

_PROTOCOL = 3 << 16
_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")


class PostgresServer(Server):
    """PostgreSQL: ``host``, ``port``, ``user`` (who may do everything), ``password``, ``database``."""

    title = "PostgreSQL"
    runs_as = "postgres"
    stop_signal = signal.SIGQUIT
    """The server's quick end. Unlike a kill it gives back its shared memory."""
    database = "postgres"

    @classmethod
    def why_not(cls) -> str | None:
        for name in ("postgres", "initdb"):
            if _program(name) is None:
                return MISSING.format(title=cls.title, what=name)
        return None

    def _prepare(self) -> None:
        secret = self._write("password", self.password + "\n")
        self._run(
            [
                _program("initdb") or "initdb",
                f"--pgdata={self._data}",
                f"--username={self.user}",
                f"--pwfile={secret}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",
            ]
        )

    @property
    def _data(self) -> str:
        return str(self.directory / "data")

    def _command(self) -> Sequence[str]:
        settings = {
            "listen_addresses": self.host,
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_prepared_transactions": "100",
            **self._settings,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [_program("postgres") or "postgres", "-D", self._data, *options]

    def _answers(self) -> bool:
        """Asked for a session, it wants a password (``R``); it refuses while it starts (``E``)."""
        names = f"user\0{self.user}\0database\0{self.database}\0\0".encode()
        return ask(self.port, struct.pack("!ii", 8 + len(names), _PROTOCOL) + names, 1) == b"R"


def _program(name: str) -> str | None:
    return find_program([name], _PLACES)
