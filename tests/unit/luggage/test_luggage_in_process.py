"""The runner without Spark gives a job what it asks for, and nothing of it to others."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.luggage import in_process
from penstock.luggage.in_process import PREFIX
from penstock.luggage.wishes import Archive, Wishes
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S
from tests.wheels import archive, compiled_files, wheel, write_files

_met = threading.Barrier(2)


def meet() -> None:
    """Both jobs are here now."""
    _met.wait(PATIENCE_S)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Temporary files are here, and are gone afterwards; so is what was on the path."""
    own = tmp_path / "tmp"
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    path, directory = list(sys.path), Path.cwd()
    with local_cluster(slots=2) as launcher:
        yield own
    for job in launcher.jobs:
        job.result().result(PATIENCE_S)
    assert not list(own.glob(f"{PREFIX}*")) and sys.path == path and Path.cwd() == directory


def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
def test_files_archives_and_requirements(mode: RuntimeExecutionMode, tmp_path: Path) -> None:
    write_files(tmp_path, {"pk_pack/__init__.py": "NAME = 'pack'\n", "requirements.txt": "pk_needed\n"})
    wheel(tmp_path / "wheels", "pk_needed", {"pk_needed.py": b"NAME = 'needed'\n"})
    env = environment().set_runtime_mode(mode)
    env.add_python_file(str(tmp_path / "pk_pack"))
    env.add_python_file(str(wheel(tmp_path, "pk_swift", compiled_files("pk_swift"))))
    env.add_python_archive(str(archive(tmp_path / "data.zip", {"a.txt": "a"})))
    if mode is RuntimeExecutionMode.STREAMING:  # pip takes seconds: once will do
        env.set_python_requirements(str(tmp_path / "requirements.txt"), str(tmp_path / "wheels"))

    def look(value: int) -> list[str]:
        import pk_pack
        import pk_swift

        found = [pk_pack.NAME, pk_swift.escaped("<"), Path("data.zip/a.txt").read_text()]
        if mode is RuntimeExecutionMode.STREAMING:
            import pk_needed

            found.append(pk_needed.NAME)
        return found

    (found,) = env.from_collection([1]).map(look).execute_and_collect()
    assert found == ["pack", "&lt;", "a", "needed"][: len(found)] and len(found) >= 3
    assert not {"pk_pack", "pk_swift", "pk_needed"} & set(sys.modules)


def test_two_jobs_at_once_have_archives_of_their_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        if not pool.submit(in_process.has_own_directory).result():
            pytest.skip("threads cannot have working directories of their own here")

    def job(name: str) -> object:
        (tmp_path / name).mkdir()
        env = environment()
        env.add_python_archive(str(archive(tmp_path / name / "data.zip", {"a.txt": name})))

        def look(value: int) -> str:
            meet()
            first = Path("data.zip/a.txt").read_text()
            meet()
            return first + Path("data.zip/a.txt").read_text()

        return env.from_collection([1]).map(look).execute_and_collect(name)

    found = [job("one"), job("two")]
    assert [list(one) for one in found] == [["oneone"], ["twotwo"]]  # type: ignore[call-overload]


def test_where_threads_share_a_directory_one_job_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_process, "has_own_directory", lambda: False)
    before = Path.cwd()
    path = archive(tmp_path / "data.zip", {"a.txt": "a"})
    first, second = (in_process.Settled(Wishes(archives=(Archive.of(str(path)),))) for _ in range(2))
    with first.at_work():
        assert Path("data.zip/a.txt").read_text() == "a"
        with pytest.raises(ConfigError, match="one after the other"), second.at_work():
            pass
    with second.at_work():
        assert Path("data.zip/a.txt").read_text() == "a"
    assert Path.cwd() == before
    first.leave()
    second.leave()


def test_an_archive_that_cannot_be_unpacked_is_said_at_once(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "data.zip").write_bytes(b"nothing")
    env = environment()
    env.add_python_archive(str(tmp_path / "data.zip"))
    env.from_collection([1]).print()
    with pytest.raises(ConfigError, match=r"data.zip cannot be unpacked"):
        env.execute()
    assert not list(temporary.iterdir())
