"""What is asked for: calls and settings, as PyFlink writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.common import Configuration
from penstock.core.errors import ConfigError
from penstock.datastream import StreamExecutionEnvironment
from penstock.luggage.outfit import check_requirements
from penstock.luggage.wishes import Archive, Requirements, Wishes


def env(**settings: str) -> StreamExecutionEnvironment:
    config = Configuration.from_dict({key.replace("__", "."): value for key, value in settings.items()})
    return StreamExecutionEnvironment.get_execution_environment(config)


def test_calls_and_settings_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = env(python__files="a.py, b", python__archives="data.zip#d,venv.zip", python__executable="py")
    program.add_python_file("c.zip")
    program.add_python_file("file:///x%20y/d.py")
    program.add_python_archive("data2.zip", "d")
    program.add_python_archive("more.tar.gz")
    program.set_python_requirements("req.txt", "wheels")
    asked = program._spec("job").python
    assert asked.files == ("/x y/d.py", *(str(tmp_path / name) for name in ("c.zip", "a.py", "b")))
    assert [(Path(one.path).name, one.target) for one in asked.archives] == [
        ("data.zip", "d"),
        ("venv.zip", "venv.zip"),
        ("more.tar.gz", "more.tar.gz"),
    ]
    assert asked.requirements == Requirements(str(tmp_path / "req.txt"), str(tmp_path / "wheels"))
    assert asked.executable == "py"


def test_requirements_as_a_setting(tmp_path: Path) -> None:
    asked = Wishes.of(Configuration.from_dict({"python.requirements": f"{tmp_path}/r.txt#{tmp_path}/w"}))
    assert asked.requirements == Requirements(f"{tmp_path}/r.txt", f"{tmp_path}/w")


@pytest.mark.parametrize("target", ["..", "a/../../b", "/abs", "."])
def test_an_archive_stays_in_the_working_directory(target: str) -> None:
    with pytest.raises(ConfigError, match="within the functions' working directory"):
        Archive.of("/x/data.zip", target)


def test_what_is_not_there_is_said_when_the_job_starts(tmp_path: Path) -> None:
    def failing(change: object) -> str:
        program = env()
        change(program)  # type: ignore[operator]
        program.from_collection([1]).print()
        with pytest.raises(ConfigError) as caught:
            program.execute_async("job")
        return str(caught.value)

    gone, there = str(tmp_path / "gone"), str(tmp_path)
    assert "the Python file" in failing(lambda program: program.add_python_file(gone))
    assert "the archive" in failing(lambda program: program.add_python_archive(gone))
    assert "is no file" in failing(lambda program: program.add_python_archive(there))
    assert "the requirements file" in failing(lambda program: program.set_python_requirements(gone))
    file = tmp_path / "r.txt"
    file.touch()
    told = failing(lambda program: program.set_python_requirements(str(file), gone))
    assert "the directory of packages" in told and gone in told
    assert "no directory" in failing(lambda program: program.set_python_requirements(str(file), str(file)))


@pytest.mark.parametrize(
    "line", ["-r other.txt", "-c limits.txt", "-e .", "--constraint=limits.txt", "./a.whl", "pkg @ file:../a"]
)
def test_requirements_that_refer_to_other_files_are_refused(line: str, tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(f"numpy\n{line}\n")
    with pytest.raises(ConfigError, match="does not travel with it"):
        check_requirements(str(file))


def test_requirements_with_hashes_and_an_index_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(
        "--index-url https://user:word@index/packages\nnumpy==1 \\\n    --hash=sha256:ab\n-i x\n# -r y\n"
    )
    check_requirements(str(file))
    assert Wishes(requirements=Requirements(str(file))).check() is None
