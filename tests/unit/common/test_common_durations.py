"""Lengths of time and memory sizes in all their forms."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common.time import Duration, Instant, Time
from penstock.core.durations import to_bytes, to_millis
from penstock.core.errors import ConfigError


@pytest.mark.parametrize(
    ("length", "millis"),
    [
        (Duration.of_days(1), 86_400_000),
        (Duration.of_hours(1), 3_600_000),
        (Duration.of_minutes(2), 120_000),
        (Duration.of_seconds(3), 3000),
        (Duration.of_millis(4), 4),
        (Duration.of_nanos(5_999_999), 5),
        (Time.days(1), 86_400_000),
        (Time.hours(1), 3_600_000),
        (Time.minutes(1), 60_000),
        (Time.seconds(1), 1000),
        (Time.milliseconds(1), 1),
        (dt.timedelta(seconds=1, microseconds=1500), 1001),
        (7, 7),
        ("1 min", 60_000),
        ("10 s", 10_000),
        ("500 ms", 500),
        ("1h", 3_600_000),
        ("2 d", 172_800_000),
        ("2 days", 172_800_000),
        ("1500", 1500),
        (" 3 Sec ", 3000),
        ("2500 us", 2),
        ("2500 µs", 2),
        ("1 m", 60_000),
    ],
)
def test_every_form_of_a_length_of_time(length, millis):
    assert to_millis(length) == millis


@pytest.mark.parametrize("wrong", ["", "s", "1 fortnight", "1.5 s", "-3 s", "1 s 2 ms", 1.5, None, True])
def test_the_error_shows_the_accepted_forms(wrong):
    with pytest.raises(ConfigError, match=r"'500 ms', '10 s', '1 min'"):
        to_millis(wrong)


@pytest.mark.parametrize(
    ("size", "count"),
    [
        ("20 kb", 20 << 10),
        ("128mb", 128 << 20),
        ("1g", 1 << 30),
        ("2 TB", 2 << 40),
        ("7", 7),
        (9, 9),
        ("5b", 5),
    ],
)
def test_memory_sizes(size, count):
    assert to_bytes(size) == count


@pytest.mark.parametrize("wrong", ["kb", "1 px", True, 1.0])
def test_wrong_memory_sizes(wrong):
    with pytest.raises(ConfigError, match="'128mb'"):
        to_bytes(wrong)


def test_equality_order_and_text():
    assert Duration.of_seconds(60) == Duration.of_minutes(1)
    assert Duration.of_seconds(1) < Duration.of_minutes(1)
    assert Time.seconds(1) == Time(1000)
    assert len({Duration.of_seconds(60), Duration.of_minutes(1)}) == 1
    assert repr(Duration.of_seconds(90)) == "Duration(90 s)"
    assert repr(Time.hours(2)) == "Time(2 h)"
    assert repr(Duration.of_nanos(3)) == "Duration(3 ns)"
    assert repr(Duration.of_nanos(0)) == "Duration(0 ms)"


@given(st.integers(-(10**15), 10**15))
def test_instants_round_trip(millis):
    instant = Instant.of_epoch_milli(millis)
    assert instant.to_epoch_milli() == millis
    assert 0 <= instant.nanos < 10**9


def test_instant_shows_its_parts():
    assert repr(Instant.of_epoch_milli(-1)) == "Instant<-1, 999000000>"
