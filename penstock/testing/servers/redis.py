"""A Redis whose every answered write is on disk."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.testing.servers.process import ask
from penstock.testing.servers.server import MISSING, Server, find_program


class RedisServer(Server):
    """Redis, also as Valkey. The default user needs no password; ``user`` with ``password`` is there too."""

    title = "Redis"

    @classmethod
    def why_not(cls) -> str | None:
        if _program() is None:
            return MISSING.format(title=cls.title, what="redis-server")
        return None

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
        return [_program() or "redis-server", str(self.directory / "redis.conf")]

    def _answers(self) -> bool:
        return ask(self.port, b"PING\r\n", 5) == b"+PONG"


def _program() -> str | None:
    return find_program(["redis-server", "valkey-server"])
