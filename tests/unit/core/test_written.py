"""What a process has written is kept, bounded, and nothing is taken away from anybody."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from penstock.core.written import KEPT_BYTES, Ring, Written


def test_a_ring_keeps_the_end() -> None:
    ring = Ring(100)
    for number in range(1000):
        ring.write(f"line {number}\n")
    text = ring.text()
    assert len(text) <= 100 and text.endswith("line 998\nline 999\n")
    ring.write("")
    assert ring.text() == text


def test_one_huge_text_does_not_take_all_the_room() -> None:
    ring = Ring()
    ring.write("before\n")
    ring.write("x" * 10_000_000)
    assert ring.text().startswith("before\n") and len(ring.text()) < KEPT_BYTES


def test_what_is_kept_begins_with_a_line() -> None:
    """``print`` writes piece by piece: the rest of a line may be a secret that has lost its name."""
    ring = Ring(25)
    for text in ("password=", "swordfish", "\n", "later", "\n", "last line\n"):
        ring.write(text)
    assert ring.text() == "later\nlast line\n"
    ring.write("x" * 20)
    assert ring.text() == "x" * 20


def test_records_of_any_logger_are_kept_and_still_go_where_they_went(
    caplog: pytest.LogCaptureFixture,
) -> None:
    written, handlers = Written(), list(logging.getLogger().handlers)
    mine = logging.getLogger("tests.written.mine")
    with written.kept():
        mine.warning("value %d", 7)
        mine.debug("not enabled")
        try:
            raise ValueError("no such country")
        except ValueError:
            mine.exception("it broke")
        assert logging.getLogger().handlers == handlers
        logging.makeLogRecord({"name": "elsewhere", "msg": "made elsewhere"})
    mine.warning("after")
    text = written.log.text()
    assert "WARNING tests.written.mine: value 7\n" in text and "ValueError: no such country" in text
    assert "not enabled" not in text and "after" not in text and "None" not in text
    assert [record.getMessage() for record in caplog.records] == ["value 7", "it broke", "after"]


def test_a_record_that_cannot_be_formatted_harms_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    written = Written()
    quiet = logging.getLogger("tests.written.quiet")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    with written.kept():
        quiet.warning("%d", "no number")
        quiet.warning("fine")
    assert written.log.text().endswith("fine\n")


def test_standard_output_is_kept_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    written = Written()
    with written.kept(), written.kept():
        print("hello", 1)
        sys.stdout.writelines(["a\n", "b\n"])
    print("after")
    assert written.stdout.text() == "hello 1\na\nb\n"
    assert stream.buffer.getvalue() == b"hello 1\na\nb\nafter\n"  # type: ignore[attr-defined]
    assert "write" not in vars(stream) and sys.stdout is stream


def test_a_stream_that_will_not_be_changed_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed:
        __slots__ = ()

        def write(self, text: str) -> int:
            return len(text)

    written = Written()
    for stream in (Fixed(), None):
        monkeypatch.setattr(sys, "stdout", stream)
        with written.kept():
            pass
    assert written.stdout.text() == ""


def test_what_others_put_in_place_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    before = logging.getLogRecordFactory()
    written = Written()

    def other(*arguments: object, **named: object) -> logging.LogRecord:
        return before(*arguments, **named)  # type: ignore[arg-type]

    try:
        with written.kept():
            logging.setLogRecordFactory(other)
        assert logging.getLogRecordFactory() is other
    finally:
        logging.setLogRecordFactory(before)
