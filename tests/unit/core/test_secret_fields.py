"""Records as text: without the values of fields whose names say that they are secret."""

from __future__ import annotations

import json
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import Row as SparkRow

from penstock.core.row import Row
from penstock.core.secret_fields import DEFAULT, SecretFields, patterns_of

Login = namedtuple("Login", ["user", "password"])
SECRET = "hunter2"


@dataclass(frozen=True)
class Account:
    user: str
    api_key: str


RECORDS: list[Any] = [
    {"user": "ann", "password": SECRET},
    {"user": "ann", "nested": [{"API-Key": SECRET}]},
    {"user": "ann", "token": {"value": SECRET}},
    Row(user="ann", client_secret=SECRET),
    Row("ann", {"passwd": SECRET}),
    Login("ann", SECRET),
    Account("ann", SECRET),
    ("ann", {"access_token": SECRET}),
    frozenset([("ann", Login("ann", SECRET))]),
    json.dumps({"user": "ann", "credentials": [SECRET]}),
    json.dumps({"user": "ann", "pwd": SECRET}).encode(),
    {"user": "ann", "body": json.dumps({"x": {"Authorization": SECRET}})},
    "user=ann password='hunter2'",
    "user=ann&pwd=hunter2&x=1",
    '{"user": "ann", "access_token": "hunter2", "cut',
    "{'user': 'ann', 'my-secret': 'hunter2'}",
    '[{"user": "ann"},\n{"api_key": "hunter2"}',
    json.dumps({"user": "ann", "pwd": SECRET, "filling": "x" * 100_000}),
]


class Shown(tuple[str, int]):
    """Says itself what its parts are called, as the rows of other libraries do."""

    def __repr__(self) -> str:
        return f"Shown(user={self[0]!r}, pin={self[1]})"


@dataclass
class Told:
    user: str
    kept: object

    def __repr__(self) -> str:
        return f"Told(user={self.user!r}, pin={self.kept.pin})"  # type: ignore[attr-defined]


class Holder:
    pin = SECRET


OWN: list[Any] = [
    {("ann", Login("ann", SECRET)): 1},
    {Account("ann", SECRET): 1},
    {'{"user": "ann", "pin": "hunter2"}': 1},
    {b'{"user": "ann", "pin": "hunter2"}': 1},
    {"user=ann pin=hunter2": {"x": 1}},
    json.dumps({"user": "ann", "pin=hunter2": 1}),
    '{"user": "ann", "x": {"pin": "hunter2"}, "x": 1}',
    Shown(("ann", SECRET)),
    [Shown(("ann", SECRET))],
    Told("ann", Holder()),
    SparkRow(user="ann", pin=SECRET),
    SparkRow(user="ann", inner=SparkRow(pin=SECRET)),
]


@pytest.mark.parametrize("record", OWN, ids=range(len(OWN)))
def test_nor_is_it_in_keys_and_in_what_classes_say_of_themselves(record: Any) -> None:
    text = SecretFields(["pin", "password", "api_key"]).text(record, 1000)
    assert SECRET not in text and "***" in text and "ann" in text


def test_keys_that_are_hidden_alike_stay_apart() -> None:
    text = SecretFields(["password"]).text({Login("ann", SECRET): 1, Login("bob", SECRET): 2}, 1000)
    assert text == "{Login(user='ann', password=***): 1, Login(user='bob', password=***): 2}"


@pytest.mark.parametrize("record", RECORDS, ids=str)
def test_what_is_secret_is_not_written(record: Any) -> None:
    text = SecretFields().text(record, 1000)
    assert SECRET not in text and "***" in text and "ann" in text


@pytest.mark.parametrize(
    "record",
    [
        {"user": "ann", "n": 1},
        Row(a=1, b=[2]),
        Login("a", None)._replace(password=""),
        (1, "{not json"),
        [1.5],
    ]
    + [None, b"\x00\xff", {"key": 7, "monkey": 1}, {1: 2, None: 3}, '{"a": 1}'],
)
def test_all_else_is_written_as_python_does(record: Any) -> None:
    assert SecretFields(["nothing-like-it"]).text(record, 1000) == repr(record)


def test_patterns_are_the_users_choice() -> None:
    own = SecretFields(patterns_of("iban, *_nr"))
    assert (
        own.text({"IBAN": 1, "card-nr": 2, "password": 3}, 99)
        == "{'IBAN': ***, 'card-nr': ***, 'password': 3}"
    )
    assert not SecretFields(()).hides("password") and SecretFields(patterns_of(DEFAULT)).hides("myPassword")


def test_text_is_short_whatever_the_record() -> None:
    deep: Any = "end"
    for _ in range(500):
        deep = [deep]
    assert "end" not in SecretFields().text(deep, 100)
    assert len(SecretFields().text({"a": ["x" * 50] * 1000}, 300)) == 303
    wide = SecretFields().text([{"password": SECRET} for _ in range(50_000)], 10**7)
    assert SECRET not in wide and wide.count("***") <= 10_000


def test_patterns_that_look_like_expressions_are_plain_text() -> None:
    own = SecretFields(["a.b", "(", "[x"])
    assert own.hides("a.b") and not own.hides("axb") and own.hides("(")
