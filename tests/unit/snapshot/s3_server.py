"""An S3 server on loopback, for tests: moto's, which honours conditional writes."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def s3_server() -> Iterator[str]:
    """Start a server, point every client of this process to it, give the URL of an empty bucket."""
    pytest.importorskip("s3fs", reason="needs the s3 extra")
    moto = pytest.importorskip("moto.server", reason="needs moto[server]")
    s3fs = pytest.importorskip("s3fs")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.delenv("AWS_PROFILE", raising=False)
        s3fs.S3FileSystem.clear_instance_cache()
        bucket = f"penstock-{uuid.uuid4().hex}"
        try:
            s3fs.S3FileSystem().mkdir(bucket)
            yield f"s3://{bucket}"
        finally:
            s3fs.S3FileSystem.clear_instance_cache()
            server.stop()
