"""One key looked up in a snapshot: as people write keys, within limits, and only where the key can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.state_processor import SavepointWriter, open_snapshot
from penstock.state_processor.lookup import Limits, NotThere, TooMuch, key_candidates, listed, rows_of_key

KEYS: dict[str, Any] = {"7": 7, "ann": "ann", "2.5": 2.5, '["ann", 7]': ("ann", 7), '"7"': "7", "true": True}


@pytest.mark.parametrize(("text", "key"), KEYS.items())
def test_keys_as_people_write_them(text: str, key: Any) -> None:
    assert any(type(found) is type(key) and found == key for found in key_candidates(text))
    assert key_candidates(text)[-1] == text


def test_what_can_be_no_key_is_text_alone() -> None:
    assert [key_candidates(text) for text in ("null", '{"a": 1}', "[" * 100_000)] == [
        ["null"],
        ['{"a": 1}'],
        ["[" * 100_000],
    ]


@pytest.mark.parametrize(
    "text",
    ["9" * 400, f"-{'9' * 999}", "1e400", "-Infinity", "NaN", '"\\ud800"', "\ud800", '["\\udcff", 1]', "[]"],
)
def test_any_text_may_be_asked_for(savepoint: Any, text: str) -> None:
    for operator, state in (("numbered", "numbers"), ("named", "names"), ("paired", "pairs")):
        assert found(savepoint, operator, state, text) == []


@pytest.fixture
def savepoint(tmp_path: Path) -> Any:
    writer = SavepointWriter.new(max_parallelism=8)
    numbers = [(number, {"n": number, "name": f"row {number}"}) for number in range(100)]
    names = [("ann", 1), ("bob", 2), ("7", 3)]
    pairs = [(("ann", 7), "pair")]
    rows = {"numbers": numbers}
    writer.with_operator("numbered", rows, parallelism=4)
    writer.with_operator("named", {"names": names}, parallelism=2)
    writer.with_operator("paired", {"pairs": pairs}, parallelism=1)
    writer.write(str(tmp_path / "sp"))
    return open_snapshot(str(tmp_path / "sp"), trusted=True)


def limits(**changed: Any) -> Limits:
    return Limits(**{"bytes": 1 << 20, "rows": 100, "is_late": lambda: False, **changed})


def found(savepoint: Any, operator: str, state: str, key: str, **changed: Any) -> list[dict[str, Any]]:
    return list(rows_of_key(savepoint.manifest, savepoint.store, operator, state, key, limits(**changed)))


@pytest.mark.parametrize(
    ("where", "key", "value"),
    [
        (("numbered", "numbers"), "42", {"n": 42, "name": "row 42"}),
        (("named", "names"), "bob", 2),
        (("named", "names"), "7", 3),
        (("paired", "pairs"), '["ann", 7]', "pair"),
    ],
)
def test_a_key_is_found(savepoint: Any, where: tuple[str, str], key: str, value: Any) -> None:
    (row,) = found(savepoint, *where, key)
    assert row["value"] == value


def test_what_is_not_there_is_told_apart(savepoint: Any) -> None:
    assert found(savepoint, "named", "names", "nobody") == []
    with pytest.raises(NotThere, match="no operator 'nobody'; it has numbered, named, paired"):
        found(savepoint, "nobody", "names", "1")
    with pytest.raises(NotThere, match="no keyed state 'other'; it has names"):
        found(savepoint, "named", "other", "ann")


def test_a_look_reads_no_more_than_it_may(savepoint: Any) -> None:
    with pytest.raises(TooMuch, match="in one piece, more than may be read here"):
        found(savepoint, "numbered", "numbers", "42", bytes=10)
    with pytest.raises(TooMuch, match="took too long"):
        found(savepoint, "numbered", "numbers", "42", is_late=lambda: True)
    assert found(savepoint, "numbered", "numbers", "42", rows=0) == []


def test_states_are_listed_without_loading_them(savepoint: Any) -> None:
    rows = list(listed(savepoint.manifest, savepoint.store, limits(bytes=0)))
    assert {(row["operator"], row["state"], row["entries"]) for row in rows} == {
        ("numbered", "numbers", 100),
        ("named", "names", 3),
        ("paired", "pairs", 1),
    }
    with pytest.raises(TooMuch):
        list(listed(savepoint.manifest, savepoint.store, limits(is_late=lambda: True)))
