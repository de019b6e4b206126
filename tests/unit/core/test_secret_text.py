"""Ways in which a secret once was shown, or a record that cannot be written did harm."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest

from penstock.core.errors import ConnectorError, UserCodeError
from penstock.core.row import Row
from penstock.core.secret_fields import SecretFields
from penstock.core.secret_text import _PIECE, without_values
from penstock.task.chain import explain_failure

SECRET = "hunter2"
KEY = "-----BEGIN KEY-----\\n" + 80 * "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY\\n" + SECRET


@dataclasses.dataclass
class Person:
    name: str
    password: str
    pin: str = dataclasses.field(default=SECRET, repr=False)


class Model:
    """Like those of libraries whose classes are not known here."""

    def __init__(self, ssn: str) -> None:
        self.ssn = ssn

    def __repr__(self) -> str:
        return f"Model(name='ann', ssn={self.ssn!r})"


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


LEAKS: list[Any] = [
    "GET / HTTP/1.1\nAuthorization: Bearer hunter2\nUser: ann",
    "ann Proxy-Authorization: AWS4 Credential=AK/x, Signature=hunter2",
    'ann said="login, password=hunter2"',
    "ann={password=hunter2}",
    "ann: [password: 'hunter2']",
    'ann "password" => "hunter2"',
    'ann {"credentials": {"user": "x", "pw": "hunter2"}} more',
    ' \n{"user": "ann", "credentials": {"user": "x", "pw": "hunter2"}}',
    f'ann "private_key": "{KEY}" x',
    'ann "password": "a b hunter2',
    'ann {\\"password\\": \\"a hunter2\\"}',
    Person("ann", SECRET),
    ["ann", Person("ann", SECRET)],
    {"ann": 1, b"password": SECRET},
    {"user": "ann", "filling": {str(n): n for n in range(10)}, "token": SECRET},
]


@pytest.mark.parametrize("record", LEAKS, ids=range(len(LEAKS)))
def test_a_secret_is_hidden_however_it_is_written(record: Any) -> None:
    text = SecretFields().text(record, 100_000)
    assert SECRET not in text and "***" in text and "ann" in text


@pytest.mark.parametrize("record", [Model(SECRET), [Model(SECRET)], {"x": (Model(SECRET),)}])
def test_what_an_object_says_of_itself_is_looked_at(record: Any) -> None:
    own = SecretFields(["ssn"])
    assert SECRET not in own.text(record, 1000) and "name='ann', ssn=***" in own.text(record, 1000)
    assert SECRET in SecretFields(["other"]).text(record, 1000)


def test_what_does_not_look_like_a_value_stays() -> None:
    def hides(name: str) -> bool:
        return name == "token"

    text = "no token here; tokens: 3, token_count=4, a token, x.token=1"
    assert without_values(text, hides) == text
    assert without_values("token=1, token: (a (b) 'c)' ) end", hides) == "token=***, token: *** end"
    assert without_values("a\\ntoken=1 b", hides) == "a\\ntoken=*** b"


def test_a_value_without_an_end_takes_all_behind_it() -> None:
    for text in ("token: [1, 2", 'token="a b', "token={'a': '}'", "token='\\"):
        assert without_values(f"x {text}", lambda name: name == "token").endswith("***")


@pytest.mark.parametrize("piece", ["\\", "a", "token:", "token=[", "='", "token={'", "x=("])
def test_hostile_text_is_read_in_one_pass(piece: str) -> None:
    assert without_values(piece * 20_000, lambda name: name == "token")


def test_a_record_of_any_size_is_written_in_little(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0

    class Counted(list[int]):
        def __iter__(self) -> Any:
            nonlocal looked
            for value in super().__iter__():
                looked += 1
                yield value

    assert len(SecretFields().text(Counted(range(100_000)), 300)) == 303
    assert looked < 20_000
    secrets = SecretFields().text({f"password{n}": n for n in range(100_000)}, 10**7)
    assert secrets.count("***") <= 10_000


def test_what_python_cannot_write_is_said() -> None:
    large = 10**6000
    for record in (large, [large], {"n": -large}):
        assert "bits)" in SecretFields().text(record, 200)
    broken: list[Any] = [Broken(), Row(a=Broken()), [Broken()]]
    for record in broken:
        assert "(Broken, which cannot be shown: RuntimeError)" in SecretFields().text(record, 200)


class _Held:
    """An operator that was given a record."""

    def current_record(self) -> Any:
        return {"ssn": SECRET, "n": 1}


def test_an_error_that_quotes_the_record_does_not_tell_its_secrets() -> None:
    record = _Held().current_record()
    held: Any = _Held()
    told = explain_failure(ConnectorError(f"cannot read {record!r}"), "map", "0", held, ("ssn",))
    assert SECRET not in str(told) and "'n': 1" in str(told) and type(told) is ConnectorError
    try:
        raise ValueError(f"bad {record}\nand {record}")
    except ValueError as error:
        raised = explain_failure(error, "map", "0", held, ("ssn",))
    assert isinstance(raised, UserCodeError) and SECRET not in str(raised) and SECRET not in raised.trace
    assert "ValueError: bad {'ssn': ***, 'n': 1}" in raised.trace
    assert 'raise ValueError(f"bad {record}' in raised.trace


def test_notes_of_an_error_do_not_tell_them_either() -> None:
    held: Any = _Held()
    try:
        try:
            raise KeyError("ssn")
        except KeyError as inner:
            inner.add_note("ssn: hunter2")
            outer = ExceptionGroup("ssn: hunter2", [ValueError("ssn=hunter2"), RuntimeError("of step 3")])
            outer.add_note("ssn=hunter2")
            outer.add_note("seen: twice")
            raise outer from inner
    except ExceptionGroup as error:
        raised = explain_failure(error, "map", "0", held, ("ssn",))
    assert isinstance(raised, UserCodeError) and SECRET not in raised.trace
    assert "ExceptionGroup: ssn: ***" in raised.trace and "RuntimeError: of step 3" in raised.trace
    assert "ssn: ***" in raised.trace and "seen: twice" in raised.trace and "KeyError: 'ssn'" in raised.trace


def test_names_of_errors_and_lines_of_the_program_are_no_secrets() -> None:
    class TokenError(Exception):
        pass

    held: Any = _Held()
    try:
        token = 1
        raise TokenError("is too old")
    except TokenError as error:
        raised = explain_failure(error, "map", "0", held, ("*token*",))
    assert isinstance(raised, UserCodeError) and token
    assert "TokenError: is too old" in raised.trace


LAID_OUT = json.dumps(
    {"user": "ann", "tokens": ["hunter2", "hunter2"], "credentials": {"pw": "hunter2"}, "n": 1}, indent=2
)
LINES = [
    LAID_OUT,
    "user = ann\nprivate_key = '-----BEGIN KEY-----\nhunter2\n-----END KEY-----'\nn: 1",
    "user:                ann\npassword:            hunter2\nn                  : 1",
    "user                 = ann\npassword             = hunter2\nn                  : 1",
    "password:\n      hunter2\nuser: ann\nn: 1",
    "x-auth-token: Bearer hunter2\nuser: ann\nn: 1",
    "user: ann " + "x" * (_PIECE - 20) + " password:\n  hunter2\nn: 1",
]


@pytest.mark.parametrize("text", LINES, ids=range(len(LINES)))
def test_a_value_that_goes_on_in_other_lines_of_a_log_is_hidden(text: str) -> None:
    shown = SecretFields().shown_lines(f"began\n{text}\nended\n")
    assert SECRET not in shown and "***" in shown and "ann" in shown
    assert re.search(r'n"? *: 1', shown) and shown.startswith("began\n") and shown.endswith("\nended\n")


def test_words_that_are_values_are_not_taken_for_schemes() -> None:
    def hides(name: str) -> bool:
        return name == "token"

    assert without_values("token: basic, n: 1", hides) == "token: ***, n: 1"
    assert without_values("token: Bearer x n=1", hides) == "token: *** n=1"
    assert without_values("token: basic", hides) == "token: ***"
