"""Who may ask: tokens, sessions, hosts, origins, read-only; for every call that changes something."""

from __future__ import annotations

import pytest
from starlette.routing import compile_path

from penstock.coordinator.asking import FOR_BROWSER
from penstock.core.clock import ManualClock
from penstock.rest.guard import CODE_S, Guard, Sessions
from penstock.rest.look import Refused
from penstock.rest.steering import ACTIONS, changes

TOKEN = "t" * 32
HERE = {"host": "127.0.0.1:8081"}
RIGHT = {**HERE, "authorization": f"Bearer {TOKEN}"}
CHANGING = sorted((method, path.replace("{", "").replace("}", "")) for method, path in ACTIONS)


def guard(
    read_only: bool = False, hosts: frozenset[str] | None = frozenset(("127.0.0.1", "localhost"))
) -> Guard:
    return Guard(TOKEN, Sessions(ManualClock()), hosts=hosts, read_only=read_only)


def status(door: Guard, method: str, path: str, headers: dict[str, str]) -> int:
    try:
        door.check(method, path, headers)
    except Refused as error:
        return error.status
    return 200


@pytest.mark.parametrize(("method", "path"), [*CHANGING, ("GET", "/jobs/overview"), ("GET", "/metrics")])
def test_every_call_needs_the_token(method: str, path: str) -> None:
    door = guard()
    assert status(door, method, path, RIGHT) == 200
    assert status(door, method, path, HERE) == 401
    assert status(door, method, path, {**HERE, "authorization": f"Bearer {TOKEN[:-1]}x"}) == 401
    assert status(door, method, path, {**HERE, "authorization": f"Basic {TOKEN}"}) == 401
    assert status(door, method, path, {**HERE, "authorization": "Bearer tök€n"}) == 401
    assert status(door, method, path, {**HERE, "cookie": "penstock=wrong"}) == 401


@pytest.mark.parametrize(("method", "path"), [*CHANGING, ("GET", "/jobs/overview")])
@pytest.mark.parametrize(
    "strange",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"host": "evil.example:8081"},
        {"host": ""},
        {"host": "[oops"},
    ],
)
def test_other_sites_are_refused_whatever_they_show(method: str, path: str, strange: dict[str, str]) -> None:
    assert status(guard(), method, path, {**RIGHT, **strange}) == 403


def session_of(door: Guard) -> dict[str, str]:
    session = door.sessions.redeem(door.sessions.new_code())
    return {**HERE, "cookie": f"other=1; penstock={session}"}


@pytest.mark.parametrize(("method", "path"), CHANGING)
def test_a_browser_changes_something_only_from_its_own_page(method: str, path: str) -> None:
    door = guard()
    cookie = session_of(door)
    assert status(door, method, path, cookie) == 403
    assert status(door, method, path, {**cookie, "sec-fetch-site": "none"}) == 403
    assert status(door, method, path, {**cookie, "sec-fetch-site": "same-origin"}) == 200
    assert status(door, method, path, {**cookie, "origin": "http://127.0.0.1:8081"}) == 200
    assert status(door, method, path, {**cookie, "referer": "http://127.0.0.1:8081/#/"}) == 200
    assert status(door, method, path, {**cookie, "referer": "http://127.0.0.1:80812/"}) == 403
    assert status(door, "GET", "/jobs/overview", cookie) == 200


@pytest.mark.parametrize(("method", "path"), CHANGING)
def test_what_only_shows_changes_nothing(method: str, path: str) -> None:
    assert status(guard(read_only=True), method, path, RIGHT) == 403
    assert status(guard(read_only=True), "GET", "/overview", RIGHT) == 200


def test_a_link_from_elsewhere_may_open_the_page_alone() -> None:
    door = guard()
    link = {**session_of(door), "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert status(door, "GET", "/", link) == 200
    assert status(door, "GET", "/jobs/overview", link) == 403
    assert status(door, "GET", "/jobs/x/yarn-cancel", link) == 403


def test_a_code_works_once_and_for_a_while() -> None:
    clock = ManualClock()
    sessions = Sessions(clock)
    code, late = sessions.new_code(), sessions.new_code()
    session = sessions.redeem(code)
    assert session is not None and sessions.knows(session) and not sessions.knows(code)
    assert sessions.redeem(code) is None and sessions.redeem("made up") is None
    clock.advance(CODE_S * 1000 + 1)
    assert sessions.redeem(late) is None


def test_codes_and_sessions_are_bounded() -> None:
    sessions = Sessions(ManualClock())
    codes = [sessions.new_code() for _ in range(40)]
    assert sessions.redeem(codes[0]) is None and sessions.redeem(codes[-1]) is not None


def test_an_open_door_answers_to_any_address_but_not_to_any_name() -> None:
    door = guard(hosts=frozenset(("*", "my.host")))
    assert status(door, "GET", "/", {**RIGHT, "host": "10.0.0.7:8081"}) == 200
    assert status(door, "GET", "/", {**RIGHT, "host": "my.host:8081"}) == 200
    assert status(door, "GET", "/", {**RIGHT, "host": "rebound.example:8081"}) == 403


def test_the_private_door_asks_for_the_token_alone() -> None:
    door = guard(hosts=None)
    assert status(door, "POST", "/jobs/x/stop", {"authorization": f"Bearer {TOKEN}"}) == 200
    assert status(door, "POST", "/jobs/x/stop", {}) == 401


@pytest.mark.parametrize(("method", "path"), CHANGING)
def test_the_private_door_lets_browsers_do_what_their_page_may(method: str, path: str) -> None:
    shown = {"authorization": f"Bearer {TOKEN}"}
    door = Guard(TOKEN, Sessions(ManualClock()), hosts=None, browsers_read_only=True)
    assert status(door, method, path, shown) == 200
    assert status(door, method, path, {**shown, FOR_BROWSER: "yes"}) == 403
    assert status(door, "GET", "/jobs/x", {**shown, FOR_BROWSER: "yes"}) == 200


def test_a_get_that_changes_something_is_known() -> None:
    assert changes("GET", "/jobs/x/yarn-cancel") and changes("GET", "/v1/jobs/x/yarn-cancel/")
    assert changes("PATCH", "/jobs/x") and not changes("GET", "/jobs/x") and not changes("HEAD", "/")


@pytest.mark.parametrize("end", ["\n", "\r\n", "/\n", "\x00", "\x7f"])
@pytest.mark.parametrize(("method", "path"), CHANGING)
def test_what_a_router_may_take_for_another_path_is_refused(method: str, path: str, end: str) -> None:
    """``$`` of a route fits in front of a line's end, too: a call was judged by another name."""
    for door in (guard(), guard(read_only=True), guard(hosts=None)):
        assert status(door, method, path + end, RIGHT) == 400
    assert status(guard(), "GET", "/jobs/x/penstock/state/op/größe 1", RIGHT) == 200


@pytest.mark.parametrize(("method", "path"), sorted(ACTIONS))
def test_routes_take_no_path_for_theirs_that_is_not(method: str, path: str) -> None:
    """Whatever else fits a route that changes something is known to change something, or is refused."""
    wanted = compile_path(path)[0]
    for code in range(0x180):
        for strange in (path + chr(code), chr(code) + path, path.replace("/", chr(code) + "/", 1)):
            if wanted.match(strange) and not changes(method, strange):
                assert status(guard(), method, strange, RIGHT) == 400, strange
