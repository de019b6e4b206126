"""Whether the driver in this container serves its page and REST, for probes of Kubernetes.

alive.py [PORT]

Any answer will do, also that a token is missing.  Status 1 and one line if there is none.
"""

import socket
import sys

REQUEST = b"GET /config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

port = int(sys.argv[1]) if len(sys.argv) > 1 else 8081
try:
    with socket.create_connection(("127.0.0.1", port), 10) as line:
        line.sendall(REQUEST)
        if not line.recv(16).startswith(b"HTTP/"):
            sys.exit(f"port {port} does not speak HTTP")
except OSError as error:
    sys.exit(f"nobody answers at port {port}: {error}")
