"""What a refused client may send before it hears why: little, if nobody knows it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.core.clock import ManualClock
from penstock.rest.app import MAX_BODY, Limits
from penstock.rest.guard import Guard, Sessions

TOKEN = "t" * 32
PIECE = 1 << 14


@pytest.mark.parametrize(
    ("token", "status", "least", "most"),
    [(TOKEN, 413, MAX_BODY + 1, 10 * MAX_BODY), ("guessed", 401, 1, 4 * (1 << 16))],
)
def test_a_body_without_an_end_is_given_up(token: str, status: int, least: int, most: int) -> None:
    taken, said = 0, []

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += PIECE
        return {"type": "http.request", "body": b"x" * PIECE, "more_body": True}

    async def send(message: Any) -> None:
        said.append(message.get("status"))

    async def app(scope: Any, receiving: Any, sending: Any) -> None:
        while (await receiving())["more_body"]:
            pass

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/jobs/x/stop",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"authorization", b"Bearer " + token.encode())],
    }
    asyncio.run(Limits(app, Guard(TOKEN, Sessions(ManualClock())))(scope, receive, send))  # type: ignore[arg-type]
    assert said[0] == status and least <= taken <= most
