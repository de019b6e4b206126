"""The manifest of plain files: whole epochs, each file once, whatever dies in between."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common.serialization import Encoder
from penstock.connectors.files.manifest import Manifest, ManifestPlace, place_of
from penstock.connectors.files.writer import FileCommittable
from penstock.connectors.sink import CommitOutcome, WriterContext
from penstock.core.batch import Batch
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.ids import Epoch
from penstock.datastream.connectors.file_system import FileCompactStrategy, FileSink
from penstock.storage.local import LocalStorage
from penstock.storage.places import storage_of

LOG = "_spark_metadata"


def entries(base: Path) -> dict[int, list[str]]:
    """What each entry of the log says, by a reader of the test's own."""
    found = {}
    for file in (base / LOG).iterdir():
        if not file.name.startswith("."):
            assert file.name == (
                f"{number}.compact"
                if ((number := int(file.name.split(".")[0])) + 1) % 10 == 0
                else str(number)
            )
            version, *lines = file.read_text().split("\n")
            assert version == "v1"
            found[number] = [checked(json.loads(line)) for line in lines]
    return dict(sorted(found.items()))


def checked(status: dict[str, object]) -> str:
    """The path of a listed file, which must be there with the size that the log says."""
    path = Path(unquote(urlsplit(str(status["path"])).path))
    assert path.stat().st_size == status["size"]
    assert (status["action"], status["isDir"]) == ("add", False)
    return str(path)


def seen(base: Path) -> list[str]:
    """What Spark sees: from the last compact entry on, with no number missing."""
    found = entries(base)
    if not found:
        return []
    newest = max(found)
    first = max(0, (newest + 1) // 10 * 10 - 1)
    return [path for number in range(first, newest + 1) for path in found[number]]


def as_spark(path: str) -> str:
    return f"file://{path.replace(' ', '%20')}"


def sink_of(base: Path | str, **more: object) -> FileSink:
    builder = FileSink.for_row_format(base, Encoder.simple_string_encoder())
    return builder.with_bucket_assigner(lambda value: f"k={value[0]}").with_manifest(**more).build()


def context(**changes: object) -> WriterContext:
    start = WriterContext("job", "sink", 0, 1, 1, None, (), True, ManualClock(), lambda message: None)
    return replace(start, **changes)


def prepare(sink: FileSink, *values: str, epoch: int = 1, **changes: object) -> list[FileCommittable]:
    writer = sink.create_writer(context(**changes))
    writer.write(Batch.of_rows(list(values)))
    writer.flush(False)
    return pickle.loads(pickle.dumps(writer.prepare_commit(Epoch(epoch))))


def finals(prepared: list[FileCommittable]) -> list[str]:
    return [item.final for item in prepared]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out put"


def test_manifest_lists_an_epoch_in_one_entry_and_not_twice(out: Path) -> None:
    sink = sink_of(out)
    sink.check()
    assert entries(out) == {0: []}
    committer = sink.create_committer()
    first, second = prepare(sink, "a/1", "b%2"), prepare(sink, "a3", epoch=2)
    assert committer.commit(first) == [CommitOutcome.COMMITTED] * 2
    committer.commit(first)
    sink.create_committer().commit(first + second)
    committer.commit(second)
    assert entries(out) == {0: [], 1: finals(first), 2: finals(second)}


def test_manifest_of_many_commits_has_no_gap_and_few_entries(out: Path) -> None:
    sink = sink_of(out)
    sink.check()
    committer, expected = sink.create_committer(), []
    for epoch in range(25):
        prepared = prepare(sink, "a", "b", epoch=epoch)
        if epoch % 4 == 0:  # another driver goes on
            committer = sink.create_committer()
        committer.commit(prepared)
        expected += finals(prepared)
        assert seen(out) == expected
    assert list(entries(out)) == list(range(9, 26))
    assert Manifest(place_of(str(out))).listed() == [as_spark(path) for path in expected]


def test_manifest_empty_commits_make_no_entry(out: Path) -> None:
    sink = sink_of(out)
    sink.check()
    assert sink.create_committer().commit([]) == []
    assert entries(out) == {0: []}


class Killed(BaseException):
    """The driver dies."""


@contextmanager
def dying(steps: int) -> Iterator[None]:
    """The next ``steps`` changes of the storage take place, then the driver dies."""
    left = iter(range(steps))

    def until_dead(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any) -> Any:
            if next(left, None) is None:
                raise Killed
            return real(*args)

        return step

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((Path, "replace"), (os, "link"), (os, "fsync"), (Path, "unlink")):
            patch.setattr(owner, name, until_dead(getattr(owner, name)))
        yield


@pytest.mark.parametrize("steps", range(15))
def test_manifest_commit_killed_at_each_step(out: Path, steps: int) -> None:
    """A reader sees the epoch before or the epoch after, and the repetition makes it the one after."""
    sink = sink_of(out)
    sink.check()
    before = prepare(sink, "a", "b")
    sink.create_committer().commit(before)
    prepared = prepare(sink, "a", "b", "c", epoch=2)
    with dying(steps):
        try:
            sink.create_committer().commit(prepared)
        except Killed:
            assert steps < 14
        else:
            assert steps == 14, "not every step was tried"
    assert seen(out) in (finals(before), finals(before + prepared))
    sink.check()
    sink.create_committer().commit(prepared)
    assert seen(out) == finals(before + prepared)
    assert list(entries(out)) == [0, 1, 2]


def test_manifest_is_begun_with_the_files_that_are_there(out: Path) -> None:
    plain = FileSink.for_row_format(out, Encoder.simple_string_encoder()).build()
    old = prepare(plain, "old")
    plain.create_committer().commit(old)
    waiting = prepare(plain, "waiting", epoch=2)
    sink = sink_of(out)
    sink.check()
    assert entries(out) == {0: finals(old)}
    sink.create_committer().commit(old + waiting)
    assert entries(out) == {0: finals(old), 1: finals(waiting)}
    with pytest.raises(ConfigError, match="none of this sink"):
        plain.check()
    shutil.rmtree(out / LOG)
    plain.check()
    sink.check()
    assert sorted(seen(out)) == sorted(finals(old + waiting))


def test_manifest_first_epoch_half_renamed_is_not_taken_for_old_files(out: Path) -> None:
    sink = sink_of(out)
    sink.check()
    prepared = prepare(sink, "a", "b")
    storage_of(str(out)).move(*prepared[0][:2])
    sink.check()
    assert seen(out) == []
    sink.create_committer().commit(prepared)
    assert entries(out) == {0: [], 1: finals(prepared)}


def test_manifest_two_jobs_append_to_one_log(out: Path) -> None:
    """Two committers that know the same log: one of them finds its number taken and goes behind."""
    sink = sink_of(out)
    sink.check()
    committers = [sink.create_committer() for _ in range(3)]
    forked = prepare(sink, "a", "b")
    expected = finals(forked)
    for committer in committers[:2]:
        committer.commit(forked)  # the same snapshot, restored by both
    for number in range(40):
        prepared = prepare(sink, "a", job_name=f"job {number % 2}", epoch=number)
        committers[number % 2].commit(prepared)
        expected += finals(prepared)
    late = prepare(sink, "late")
    committers[2].commit(late)  # looked last when the log was new, and most of it is gone
    assert seen(out) == expected + finals(late)


def test_manifest_made_anew_by_another_job_is_read_anew(out: Path) -> None:
    """With as many entries as the old one, so that their number does not tell."""
    sink = sink_of(out)
    sink.check()
    one, other = sink.create_committer(), sink.create_committer()
    first, second = prepare(sink, "a"), prepare(sink, "b", "c", epoch=2)
    one.commit(first)
    shutil.rmtree(out / LOG)
    Path(second[0].pending).rename(second[0].final)  # as far as the first job came
    sink.check()
    third = prepare(sink, "d")
    other.commit(third)
    one.commit(second)
    assert sorted(seen(out)) == sorted(finals(first + second + third))


@pytest.mark.parametrize("entries_meanwhile", [3, 14, 18, 33])
def test_manifest_driver_that_slept_while_others_went_on(
    out: Path, monkeypatch: pytest.MonkeyPatch, entries_meanwhile: int
) -> None:
    """Between its look and its append; the number may be free again by then, but is read by nobody."""
    sink = sink_of(out)
    sink.check()
    real, others = LocalStorage.create_new, []

    def sleeping(self: LocalStorage, path: str, data: bytes) -> bool:
        monkeypatch.setattr(LocalStorage, "create_new", real)
        for number in range(entries_meanwhile):
            others.extend(prepare(sink, "x", job_name="other", epoch=number))
            sink.create_committer().commit(others[-1:])
        return real(self, path, data)

    prepared = prepare(sink, "a", "b")
    committer = sink.create_committer()
    monkeypatch.setattr(LocalStorage, "create_new", sleeping)
    committer.commit(prepared)
    committer.commit(prepared)
    assert seen(out) == finals(others + prepared)


def test_manifest_never_lists_parts_of_merged_files(out: Path) -> None:
    builder = FileSink.for_row_format(out, Encoder.simple_string_encoder()).with_manifest()
    strategy = FileCompactStrategy(checkpoints=2)
    sink = builder.enable_compact(strategy, None).build()
    sink.check()
    writer, committer, expected = sink.create_writer(context()), sink.create_committer(), []
    for epoch in range(1, 7):
        writer.write(Batch.of_rows([f"{epoch}"]))
        writer.flush(epoch == 6)
        prepared = writer.prepare_commit(Epoch(epoch))
        committer.commit(prepared)
        expected += finals(prepared)
    assert seen(out) == expected and len(expected) == 3
    assert "".join(Path(path).read_text() for path in expected).split() == list("123456")


def test_manifest_files_that_were_taken_away_are_not_listed(out: Path) -> None:
    sink = sink_of(out)
    sink.check()
    taken, stays = prepare(sink, "a"), prepare(sink, "b", epoch=2)
    Path(taken[0].pending).unlink()
    sink.create_committer().commit(taken + stays)
    assert seen(out) == finals(stays)


def test_manifest_of_the_old_base_path_lists_what_a_snapshot_holds_for_it(tmp_path: Path) -> None:
    old, new = sink_of(tmp_path / "old"), sink_of(tmp_path / "new")
    for sink in (old, new):
        sink.check()
    prepared = prepare(old, "a")
    new.create_committer().commit(prepared)
    assert seen(tmp_path / "old") == finals(prepared) and seen(tmp_path / "new") == []
    for removed in (tmp_path / "old" / LOG, tmp_path / "old"):
        shutil.rmtree(removed)
        assert new.create_committer().commit(prepared) == [CommitOutcome.ALREADY_COMMITTED]


def test_manifest_of_spark_is_left_alone(out: Path) -> None:
    (out / LOG).mkdir(parents=True)
    (out / LOG / "0").write_text("v1")
    sink = sink_of(out)
    with pytest.raises(ConfigError, match=r"Spark's own streaming.*'\.penstock'"):
        sink.check()
    (out / LOG / ".penstock").touch()
    sink.check()
    prepared = prepare(sink, "a")
    sink.create_committer().commit(prepared)
    assert entries(out) == {0: [], 1: finals(prepared)}


def test_manifest_that_is_damaged_moved_or_removed_is_named(out: Path, tmp_path: Path) -> None:
    sink = sink_of(out)
    sink.check()
    committer = sink.create_committer()
    committer.commit(prepare(sink, "a"))
    moved = tmp_path / "moved"
    shutil.copytree(out, moved)
    with pytest.raises(ConfigError, match="directory was moved"):
        sink_of(moved).check()
    with pytest.raises(ConfigError, match="another URL"):
        sink_of(out, read_as="hdfs://name/out").check()
    (out / LOG / "0").unlink()
    with pytest.raises(ConnectorError, match="has an entry 1 but no '0'"):
        sink.check()
    shutil.rmtree(out / LOG)
    with pytest.raises(ConnectorError, match="removed since the job began"):
        committer.commit(prepare(sink, "b", epoch=2))


@pytest.mark.parametrize(
    ("base", "read_as", "url"),
    [
        ("/data/a b", None, "file:///data/a%20b"),
        ("s3://bucket/x/day=1", None, "s3a://bucket/x/day=1"),
        ("s3://bucket", None, "s3a://bucket"),
        ("sftp://me:secret@name:22/x", None, "sftp://name:22/x"),
        ("webhdfs://name:9870/x", "hdfs://name:8020/x", "hdfs://name:8020/x"),
        ("s3://bucket/x", "s3://bucket/x/", "s3://bucket/x"),
        ("/data/x", "/mnt/a b/x%", "file:///mnt/a%20b/x%25"),
    ],
)
def test_manifest_names_files_as_spark_does(base: str, read_as: str | None, url: str) -> None:
    assert place_of(base, read_as) == ManifestPlace(base, url)


def test_manifest_on_hdfs_must_know_the_url_of_spark() -> None:
    with pytest.raises(ConfigError, match="hdfs://name-node:8020/path"):
        sink_of("webhdfs://name:9870/x")


def test_manifest_on_a_store_without_exclusive_creation_is_refused(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(ConfigError, match="no exclusive creation"):
        sink_of(out).check()


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["wait", "commit", "repeat"]) | st.integers(0, 14)),
    max_size=24,
)


@given(steps=STEPS)
@settings(max_examples=40, deadline=None)
def test_manifest_lists_what_is_committed_by_whole_epochs(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str | int]]
) -> None:
    """Epochs that wait for later ones, are committed twice, or by a driver that dies after some changes."""
    base = tmp_path_factory.mktemp("manifest") / "out"
    sink = sink_of(base)
    sink.check()
    committer = sink.create_committer()
    epochs: list[list[FileCommittable]] = []
    confirmed = 0
    for files, step in [*steps, (1, "repeat")]:
        epochs.append(prepare(sink, *"abc"[:files], epoch=len(epochs)))
        first = confirmed if step == "commit" else 0
        published = [item for epoch in epochs[first:] for item in epoch]
        if isinstance(step, int):
            with dying(step), suppress(Killed):
                committer.commit(published)
            sink.check()
            committer = sink.create_committer()
        elif step != "wait":
            committer.commit(published)
            confirmed = len(epochs)
        whole = [finals([item for epoch in epochs[:end] for item in epoch]) for end in range(len(epochs) + 1)]
        assert seen(base) in whole[confirmed:]
