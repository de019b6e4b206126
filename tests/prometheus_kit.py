"""A real Prometheus that scrapes a job and watches the shipped rules, as they are or with faster time."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from penstock.testing.servers.server import MISSING, Server, find_program

RULES = Path(__file__).parents[1] / "deploy" / "prometheus" / "rules.yml"
_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"(\d+)(ms|[smhd])")


def faster(rules: str, factor: int) -> str:
    """The same rules with every span of time divided: what is waited for, and what is looked back over."""

    def divided(found: re.Match[str]) -> str:
        return f"{max(1, int(found[1]) * _MS[found[2]] // factor)}ms"

    def spans(found: re.Match[str]) -> str:
        return _SPAN.sub(divided, found[0])

    return re.sub(r"\[[^\]]*\]|for: \S+", spans, rules)


class PrometheusServer(Server):
    """Scrapes the job at ``url`` every second."""

    title = "Prometheus"

    def __init__(self, url: str, token: str, rules: str) -> None:
        super().__init__()
        self._url, self._token, self._rules = url, token, rules

    @classmethod
    def why_not(cls) -> str | None:
        if find_program(["prometheus"]) and find_program(["promtool"]):
            return None
        return MISSING.format(title=cls.title, what="prometheus")

    def _prepare(self) -> None:
        self._write("rules.yml", self._rules)
        scrape = {
            "job_name": "penstock",
            "authorization": {"credentials": self._token},
            "static_configs": [{"targets": [urllib.parse.urlsplit(self._url).netloc]}],
        }
        whole = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "scrape_configs": [scrape],
            "rule_files": ["rules.yml"],
        }
        self._write("prometheus.yml", yaml.safe_dump(whole))

    def _command(self) -> Sequence[str]:
        program = find_program(["prometheus"])
        assert program is not None
        return [
            program,
            f"--config.file={self.directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.directory / 'data'}",
            f"--web.listen-address={self.host}:{self.port}",
            "--log.level=warn",
        ]

    def _answers(self) -> bool:
        try:
            return self._get("/-/ready") is not None
        except OSError:
            return False

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://{self.host}:{self.port}{path}", timeout=60) as answer:
            body: bytes = answer.read()
            return body

    def firing(self) -> set[str]:
        """The alerts that fire now."""
        alerts = json.loads(self._get("/api/v1/alerts"))["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def value(self, query: str) -> list[float]:
        """What a query gives now."""
        found = json.loads(self._get(f"/api/v1/query?query={urllib.parse.quote(query)}"))
        return [float(sample["value"][1]) for sample in found["data"]["result"]]

    def problems(self) -> list[Any]:
        """Rules that could not be computed, and targets that could not be scraped."""
        groups = json.loads(self._get("/api/v1/rules"))["data"]["groups"]
        targets = json.loads(self._get("/api/v1/targets"))["data"]["activeTargets"]
        rules = [rule["lastError"] for group in groups for rule in group["rules"] if rule.get("lastError")]
        return rules + [target["lastError"] for target in targets if target["lastError"]]

    def scrapes(self) -> int:
        """How often the job was scraped."""
        return int(sum(self.value("count_over_time(up[1h])")))
