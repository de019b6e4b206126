"""Real servers for tests, each a context manager: on loopback, with data of their own, killed when told.

::

    with PostgresServer() as server:
        write_to(server.host, server.port, server.user, server.password, server.database)
        server.kill()      # kill -9
        server.restart()   # same port, same data

``why_not()`` of each class says in one sentence why it cannot run here, or ``None``.
"""

from penstock.testing.servers.databases import MariaDbServer, PostgresServer, RedisServer
from penstock.testing.servers.java import HdfsServer, KafkaServer
from penstock.testing.servers.server import Server

__all__ = ["HdfsServer", "KafkaServer", "MariaDbServer", "PostgresServer", "RedisServer", "Server"]
