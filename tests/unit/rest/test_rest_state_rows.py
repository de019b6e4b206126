"""Rows of state as the page shows them: without secrets, whatever a user's class does when it is written."""

from __future__ import annotations

from typing import Any

from penstock.core.secret_fields import SecretFields
from penstock.rest.state import States


def rows(state: str, row: dict[str, Any]) -> dict[str, str]:
    states = States.__new__(States)
    states._secret = SecretFields()
    return states._shown(state, row)


class Broken(tuple[Any, ...]):
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_the_value_of_a_secret_key_of_a_map_is_not_told() -> None:
    assert rows("settings", {"key": 1, "namespace": "api_key", "value": "hunter2"})["value"] == "***"
    assert rows("settings", {"key": 1, "namespace": "colour", "value": "red"})["value"] == "'red'"
    assert rows("token", {"key": 1, "value": "hunter2"})["value"] == "***"


def test_what_cannot_be_written_is_said() -> None:
    assert "cannot be shown: RuntimeError" in rows("any", {"key": 1, "value": Broken()})["value"]
    assert "bits" in rows("any", {"key": 1, "value": 10**6000})["value"]
