"""A job on the in-process cluster with its control plane, and a client that knows the token."""

from __future__ import annotations

import datetime
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from local_jobs import environment, number_stream, until

from penstock.coordinator.running_job import RunningJob
from penstock.core.job import JobStatus
from penstock.rest.serving import Serving, serve
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S

COUNT = 1000
HALF = 599
"""Records before its source waits for the gate."""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    body: Any
    headers: dict[str, str]


@dataclass
class Client:
    """Asks one control plane."""

    url: str
    token: str | None
    headers: dict[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None

    def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> Answer:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        for name, value in {**self.headers, **headers}.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S, context=self.tls) as answer:
                return _answer(answer.status, answer.read(), dict(answer.headers))
        except urllib.error.HTTPError as error:
            return _answer(error.code, error.read(), dict(error.headers))

    def get(self, path: str) -> Any:
        """The body of a call that must succeed."""
        found = self.ask(path)
        assert found.status == 200, (path, found)
        return found.body


def _answer(status: int, raw: bytes, headers: dict[str, str]) -> Answer:
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    return Answer(status, json.loads(raw) if "json" in kind else raw.decode(), headers)


@dataclass
class Served:
    """A job in the middle of its input, and its control plane."""

    launcher: LocalLauncher
    job: RunningJob
    serving: Serving
    client: Client
    gate: Path
    base: str

    def until(self, condition: Any, what: str) -> Any:
        """Wait for an answer to become what it must."""
        return until(condition, what)


def key_store(path: Path) -> None:
    """A key and a certificate of its own for localhost, in one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - datetime.timedelta(1))
    made = made.not_valid_after(now + datetime.timedelta(1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(secret + made.sign(key, hashes.SHA256()).public_bytes(pem))


@contextmanager
def served(tmp_path: Path, **settings: str) -> Iterator[Served]:
    """A streaming job that waits at a good half of its records."""
    gate = tmp_path / "gate"
    env = environment(tmp_path / "checkpoints", **{"rest__port": "0", **settings})
    with local_cluster(2) as launcher:
        number_stream(env, COUNT, gate=gate).key_by(lambda i: i % 7).map(lambda i: i).uid("map").print()
        env.execute_async("served")
        job = launcher.jobs[-1]
        serving = serve(job)
        assert serving is not None
        assert serving.failed is None
        client = Client(serving.url, serving.token)
        until(lambda: job.status() is JobStatus.RUNNING, "the job runs")
        try:
            yield Served(launcher, job, serving, client, gate, f"/jobs/{job.job_id.hex}")
        finally:
            gate.touch()
            if not job.result().done():
                job.cancel().result(PATIENCE_S)
            serving.close()
