"""Who may see a job and steer it: token, cookie of a browser, read-only mode, TLS; and no secret is told."""

from __future__ import annotations

import ssl
import urllib.error
from pathlib import Path

import pytest
from rest_client import Client, key_store, served

from penstock.core.job import JobStatus
from penstock.rest import openapi


def test_a_browser_gets_a_cookie_for_a_code_once(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        browser = Client(job.serving.url, None)
        assert browser.ask("/").status == 401 and browser.ask("/jobs/overview").status == 401
        path = job.serving.link().removeprefix(job.serving.url)
        first = browser.ask(path)
        cookie = next(value for name, value in first.headers.items() if name.lower() == "set-cookie")
        assert first.status == 200 and "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
        assert browser.ask(path).status == 401
        browser.headers["Cookie"] = cookie.partition(";")[0]
        assert browser.get("/jobs/overview")["jobs"] and browser.ask("/").status == 200
        assert browser.ask(f"{job.base}/yarn-cancel").status == 403
        assert browser.ask(f"{job.base}/yarn-cancel", Origin="http://evil.example").status == 403
        assert browser.ask(f"{job.base}/yarn-cancel", Host="evil.example").status == 403
        assert browser.ask(path, Host="evil.example").status == 403
        assert job.job.status() is JobStatus.RUNNING


def test_without_the_token_nothing_is_done(tmp_path: Path) -> None:
    with served(tmp_path) as job:
        calls = [call for call in openapi.calls() if call["method"] != "GET" or "yarn" in call["path"]]
        assert len(calls) > 7
        for stranger in (Client(job.serving.url, None), Client(job.serving.url, "0" * 64)):
            for call in calls:
                path = call["path"].replace("{jobid}", job.job.job_id.hex)
                path = path.replace("{applicationid}", job.job.job_id.hex)
                found = stranger.ask(path, call["method"])
                assert found.status == 401 and found.body["errors"], call
        assert job.job.status() is JobStatus.RUNNING and job.job.savepoints_asked == 0


def test_what_only_shows_is_told_so(tmp_path: Path) -> None:
    with served(tmp_path, penstock__rest__read_only="true") as job:
        assert job.client.ask(f"{job.base}/yarn-cancel").status == 403
        assert job.client.get("/config")["features"]["web-cancel"] is False
        assert job.job.status() is JobStatus.RUNNING


def test_no_secret_is_told(tmp_path: Path) -> None:
    with served(tmp_path, spark__hadoop__secret="hunter2") as job:
        for path in ("/jobmanager/config", f"{job.base}/jobmanager/config", "/config", f"{job.base}/config"):
            assert "hunter2" not in str(job.client.get(path)) and job.serving.token not in str(
                job.client.get(path)
            )


def test_it_speaks_tls(tmp_path: Path) -> None:
    store = tmp_path / "rest.pem"
    key_store(store)
    settings = {"security__ssl__rest__enabled": "true", "security__ssl__rest__keystore": str(store)}
    with served(tmp_path, rest__address="localhost", **settings) as job:
        assert job.serving.url.startswith("https://localhost:")
        trusting = Client(
            job.serving.url, job.serving.token, tls=ssl.create_default_context(cafile=str(store))
        )
        assert trusting.get("/jobs")["jobs"]
        browser = Client(job.serving.url, None, tls=trusting.tls)
        first = browser.ask(job.serving.link().removeprefix(job.serving.url))
        assert "Secure" in str(first.headers)
        with pytest.raises(urllib.error.URLError):
            job.client.get("/jobs")
