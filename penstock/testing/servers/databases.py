"""Databases that are programs of the system: MariaDB, PostgreSQL and Redis."""

from __future__ import annotations

import signal
import struct
from collections.abc import Sequence
from typing import ClassVar

from penstock.testing.servers.process import account, ask
from penstock.testing.servers.server import MISSING, Server, find_program

_GREETING = b"\x0a"
"""Fifth byte of a MariaDB that takes connections: the protocol's version. A refusal has 0xff there."""
_PROTOCOL = 3 << 16
"""PostgreSQL's."""


class _Database(Server):
    """A server whose programs are installed, or not."""

    programs: ClassVar[Sequence[Sequence[str]]]
    """The server, then its tools; each with all names that it may have."""
    places: ClassVar[Sequence[str]] = ()
    """Directories off the PATH where they may be."""

    @classmethod
    def why_not(cls) -> str | None:
        for names in cls.programs:
            if find_program(names, cls.places) is None:
                return MISSING.format(title=cls.title, what=names[0])
        return None

    def _program(self, number: int) -> str:
        names = self.programs[number]
        return find_program(names, self.places) or names[0]

    @property
    def _data(self) -> str:
        return str(self.directory / "data")


class MariaDbServer(_Database):
    """MariaDB: ``host``, ``port``, ``user`` (who may do everything), ``password``, ``database`` (empty)."""

    title = "MariaDB"
    runs_as = "mysql"
    database = "penstock"
    programs = (("mariadbd",), ("mariadb-install-db",))

    def _prepare(self) -> None:
        user = account(self.runs_as)
        install = [self._program(1), "--no-defaults", "--skip-test-db"]
        self._run([*install, f"--datadir={self._data}", *([f"--user={user}"] if user else [])])
        self._write(
            "init.sql",
            f"CREATE DATABASE IF NOT EXISTS {self.database};\n"
            f"CREATE USER IF NOT EXISTS '{self.user}'@'%' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO '{self.user}'@'%' WITH GRANT OPTION;\n",
        )

    def _command(self) -> Sequence[str]:
        settings = {
            "datadir": self._data,
            "socket": str(self.directory / "socket"),
            "pid-file": str(self.directory / "mariadb.pid"),
            "init-file": str(self.directory / "init.sql"),
            "bind-address": self.host,
            "port": str(self.port),
            "skip-name-resolve": "1",
            "character-set-server": "utf8mb4",
            "innodb-buffer-pool-size": "64M",
            **self._settings,
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [self._program(0), "--no-defaults", *options]

    def _answers(self) -> bool:
        return ask(self.port, b"", 5)[4:] == _GREETING


class PostgresServer(_Database):
    """PostgreSQL: ``host``, ``port``, ``user`` (who may do everything), ``password``, ``database``.

    It keeps prepared transactions.
    """

    title = "PostgreSQL"
    runs_as = "postgres"
    stop_signal = signal.SIGQUIT
    """The server's quick end. Unlike a kill it gives back its shared memory."""
    database = "postgres"
    programs = (("postgres",), ("initdb",))
    places = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")

    def _prepare(self) -> None:
        secret = self._write("password", self.password + "\n")
        self._run(
            [
                self._program(1),
                f"--pgdata={self._data}",
                f"--username={self.user}",
                f"--pwfile={secret}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",
            ]
        )

    def _command(self) -> Sequence[str]:
        settings = {
            "listen_addresses": self.host,
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_prepared_transactions": "100",
            **self._settings,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [self._program(0), "-D", self._data, *options]

    def _answers(self) -> bool:
        """Asked for a session, it wants a password (``R``); it refuses while it starts (``E``)."""
        names = f"user\0{self.user}\0database\0{self.database}\0\0".encode()
        return ask(self.port, struct.pack("!ii", 8 + len(names), _PROTOCOL) + names, 1) == b"R"


class RedisServer(_Database):
    """Redis, also as Valkey; every answered write is on disk.

    The default user needs no password; ``user`` with ``password`` is there too.
    """

    title = "Redis"
    programs = (("redis-server", "valkey-server"),)

    def _prepare(self) -> None:
        settings = {
            "bind": self.host,
            "port": str(self.port),
            "dir": str(self.directory),
            "save": '""',
            "appendonly": "yes",
            "appendfsync": "always",
            **self._settings,
        }
        lines = [f"{name} {value}" for name, value in settings.items()]
        lines += ["user default on nopass ~* &* +@all", f"user {self.user} on >{self.password} ~* &* +@all"]
        self._write("redis.conf", "\n".join(lines) + "\n")

    def _command(self) -> Sequence[str]:
        return [self._program(0), str(self.directory / "redis.conf")]

    def _answers(self) -> bool:
        return ask(self.port, b"PING\r\n", 5) == b"+PONG"
