"""The soak's verdicts: what counts as growth, and what as lost or doubled."""

from __future__ import annotations

import os
import random
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))

from soak_growth import FEWEST, Allowance, judge, trend
from soak_ledger import KEYS, TIMER_EVERY, WINDOW_MS, Ledger, described
from soak_sample import files_below, sample

NOISE = random.Random(1)
FLAT = [100 + NOISE.uniform(-4, 4) for _ in range(80)]
MEMORY = Allowance(0.05, 2)


def grows(values: list[float], allowance: Allowance = MEMORY) -> bool:
    verdict = judge(values, allowance)
    assert verdict is not None
    return verdict.grows


STEADY = {
    "flat": FLAT,
    "a warm-up": [*range(0, 100, 5), *FLAT[20:]],
    "a sawtooth of retention": [i % 10 * 20 for i in range(80)],
    "a spike": [*FLAT[:70], 900, 900, *FLAT[72:]],
    "one step": [*FLAT[:20], *(value * 1.03 for value in FLAT[20:])],
    "falling": [200 - i for i in range(80)],
    "within what is allowed": [100 + i * 0.03 for i in range(80)],
    "holes after kills": [0 if i % 9 == 0 else value for i, value in enumerate(FLAT)],
}
GROWING = {
    "a line": [100.0 + i for i in range(80)],
    "a line in noise": [value + i * 0.5 for i, value in enumerate(FLAT)],
    "steps": [100 + i // 16 * 20 for i in range(80)],
    "a sawtooth on a slope": [i % 10 * 5 + i * 2 for i in range(80)],
    "faster and faster": [100 * 1.02**i for i in range(80)],
}


@pytest.mark.parametrize("name", STEADY)
def test_what_is_steady(name: str) -> None:
    assert not grows(STEADY[name])


@pytest.mark.parametrize("name", GROWING)
def test_what_grows(name: str) -> None:
    assert grows(GROWING[name])


def test_an_entry_for_every_attempt_is_growth() -> None:
    assert grows([3.0 + i // 3 for i in range(60)], Allowance(0.10, 5))
    assert not grows([3.0 + i % 4 for i in range(60)], Allowance(0.10, 5))


def test_a_few_samples_say_nothing() -> None:
    assert judge([1.0] * (FEWEST - 1), MEMORY) is None
    assert judge([1.0] * FEWEST, MEMORY) is not None


def test_the_trend() -> None:
    assert (trend([1, 2, 3]), trend([3, 2, 1]), trend([1, 1, 1]), trend([])) == (1, -1, 0, 0)


def lines(count: int) -> list[str]:
    """What a job writes for the first records."""
    found = [described(i, i // KEYS) for i in range(count)]
    for start in range(0, count - WINDOW_MS + 1, WINDOW_MS):
        found += [f"w {key} {start} {WINDOW_MS // KEYS}" for key in range(KEYS)]
    return found + [f"t {i % KEYS} {i // KEYS}" for i in range(count) if i // KEYS % TIMER_EVERY == 0]


def read(written: list[str]) -> tuple[int, int, int]:
    ledger = Ledger(2)
    for line in written:
        ledger.add(line)
    return ledger.lost, ledger.duplicated, ledger.wrong


def test_every_line_once_in_any_order() -> None:
    written = lines(6000)
    random.Random(2).shuffle(written)
    assert read(written) == (0, 0, 0)


@pytest.mark.parametrize("start", ["r 100 ", "w 7 1000 ", "t 7 0"])
def test_a_line_too_few_too_many_or_wrong(start: str) -> None:
    written = lines(6000)
    (line,) = (line for line in written if line.startswith(start))
    without = [other for other in written if other != line]
    assert read(without) == (1, 0, 0)
    assert read([*written, line]) == (0, 1, 0)
    if not line.startswith("t"):
        assert read([*without, line[: line.rindex(" ")] + " 999"]) == (0, 0, 1)


def test_a_directory_that_vanishes_while_it_is_walked_is_left_out(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("1")
    found = files_below(tmp_path)
    first, _ = next(found)
    (other,) = {"a", "b"} - {first.parent.name}
    shutil.rmtree(tmp_path / other)
    assert list(found) == []


def test_a_checkpoint_that_is_being_deleted_is_not_the_newest(tmp_path: Path) -> None:
    job = tmp_path / "checkpoints" / "job"
    for name, size in {"chk-9": 1024, "chk-10": 2048, ".tmp-70018975a412428bb0b5d606db63e329": 4096}.items():
        (job / name).mkdir(parents=True)
        (job / name / "_metadata-3").write_bytes(bytes(size))
    found = sample(os.getpid(), tmp_path)
    assert found is not None
    assert found["manifest_kb"] == 2
