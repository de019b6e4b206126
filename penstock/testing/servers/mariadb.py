"""A MariaDB with one empty database and one user who may do everything."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.testing.servers.process import account, ask
from penstock.testing.servers.server import MISSING, Server, find_program

_GREETING = b"\x0a"
"""Fifth byte of a server that takes connections: the protocol's version. A refusal has 0xff there."""


class MariaDbServer(Server):
    """MariaDB: ``host``, ``port``, ``user``, ``password``, ``database``."""

    title = "MariaDB"
    runs_as = "mysql"
    database = "penstock"

    @classmethod
    def why_not(cls) -> str | None:
        for what, program in (("mariadbd", _server()), ("mariadb-install-db", _installer())):
            if program is None:
                return MISSING.format(title=cls.title, what=what)
        return None

    def _prepare(self) -> None:
        user = account(self.runs_as)
        install = [_installer() or "mariadb-install-db", "--no-defaults", "--skip-test-db"]
        self._run([*install, f"--datadir={self._data}", *([f"--user={user}"] if user else [])])
        self._write(
            "init.sql",
            f"CREATE DATABASE IF NOT EXISTS {self.database};\n"
            f"CREATE USER IF NOT EXISTS '{self.user}'@'%' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO '{self.user}'@'%' WITH GRANT OPTION;\n",
        )

    @property
    def _data(self) -> str:
        return str(self.directory / "data")

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
        return [_server() or "mariadbd", "--no-defaults", *options]

    def _answers(self) -> bool:
        return ask(self.port, b"", 5)[4:] == _GREETING


def _server() -> str | None:
    return find_program(["mariadbd"])


def _installer() -> str | None:
    return find_program(["mariadb-install-db"])
