"""Archives, requirements and interpreters: as a worker gets them before its Python starts."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import penstock
from penstock.core.errors import ClusterError, ConfigError
from penstock.luggage.archives import members, pack
from penstock.luggage.outfit import MARK, Outfit, outfit_of, put_on
from penstock.luggage.wishes import Archive, Requirements, Wishes
from penstock.spark.failures import translate
from penstock.spark.shipping import fitted, wearing
from tests.wheels import archive, wheel, write_files

ENGINE = str(Path(penstock.__file__).parents[1])
TELL = """
import json, os, sys
from penstock.luggage.arrival import carrying, Luggage
import needed
with carrying(Luggage().to_json(), "."):
    told = {"name": needed.NAME, "data": open("data.zip/a.txt").read(), "args": sys.argv[1:]}
print(json.dumps(told | {"python": sys.executable, "back": os.getcwd()}))
"""


@pytest.fixture
def wishes(tmp_path: Path) -> Wishes:
    """An archive with data and an interpreter, and requirements with a hash, offline."""
    made = wheel(tmp_path / "wheels", "needed", {"needed.py": b"NAME = 'needed'\n"})
    known = hashlib.sha256(made.read_bytes()).hexdigest()
    write_files(tmp_path, {"requirements.txt": f"needed==1.0 --hash=sha256:{known}\n"})
    python = f'#!/bin/sh\nexec {sys.executable} "$@"\n'
    path = archive(tmp_path / "data.zip", {"a.txt": "a", "env/bin/python": python})
    return Wishes(
        archives=(Archive.of(str(path)),),
        requirements=Requirements(str(tmp_path / "requirements.txt"), str(tmp_path / "wheels")),
        executable="data.zip/env/bin/python",
    )


def started(script: str, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What Spark starts in the place of Python."""
    own = tmp_path / "blockmgr"
    own.mkdir(exist_ok=True)
    environment = {**os.environ, "SPARK_LOCAL_DIRS": str(own), "PYTHONPATH": ""}
    return subprocess.run(
        [script, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )


def place(tmp_path: Path) -> Path:
    made = tmp_path / "place"
    made.mkdir(mode=0o700, exist_ok=True)
    return made


def test_a_worker_starts_in_its_outfit(wishes: Wishes, tmp_path: Path) -> None:
    """Also after the driver's own files have changed: what counts is what they were."""
    context = SimpleNamespace(pythonExec=sys.executable)
    script = fitted(context, wishes, place(tmp_path), ENGINE, None)
    assert script is not None
    archive(tmp_path / "data.zip", {"a.txt": "changed"})
    (tmp_path / "requirements.txt").write_text("nonsense ==\n")
    done = started(script, tmp_path, "-c", TELL, "one argument")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["name"] == "needed" and told["data"] == "a" and told["args"] == ["one argument"]
    assert told["back"] == str(tmp_path), "functions have the directory, the worker gets its own back"
    modes = {path.name: path.stat().st_mode & 0o777 for path in place(tmp_path).iterdir()}
    assert {mode for name, mode in modes.items() if "penstock-python-" not in name} <= {0o600, 0o700}
    assert modes[Path(script).name] == 0o700
    again = started(script, tmp_path, "-c", "import needed; print(needed.__file__)")
    luggage = tmp_path / "blockmgr" / "penstock-luggage"
    assert [path.name for path in luggage.glob("packages-*") if path.suffix != ".lock"] == [
        Path(again.stdout.strip()).parent.name
    ], "installed once, and nothing of pip's is left"


def test_what_spark_names_relatively_is_still_found_at_work(tmp_path: Path) -> None:
    """A package that was begun to be imported from an archive beside the worker is imported further there."""
    write_files(tmp_path, {"work/a.txt": "", "lib/pk_dir/__init__.py": "", "lib/pk_dir/inner.py": ""})
    archive(
        tmp_path / "lib.zip", {"pk_zip/__init__.py": "", "pk_zip/sub/__init__.py": "", "pk_zip/sub/x.py": ""}
    )
    code = f"""
import os, sys
sys.path[1:1] = [".", "./lib.zip", "lib", "hook.__path_hook__"]
sys.path.append({ENGINE!r})
import pk_zip, pk_zip.sub, pk_dir
from penstock.luggage.arrival import carrying, Luggage
for _ in range(2):
    with carrying(Luggage().to_json(), "."):
        assert os.getcwd() == {str(tmp_path / "work")!r}
        import pk_zip.sub.x, pk_dir.inner
    assert os.getcwd() == {str(tmp_path)!r}
assert "hook.__path_hook__" in sys.path
"""
    environment = {**os.environ, "PENSTOCK_WORKING_DIRECTORY": str(tmp_path / "work"), "PYTHONPATH": ""}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_pip_says_is_the_error_without_secrets(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {"requirements.txt": "--extra-index-url https://me:hush@127.0.0.1:1/packages\nno-such-one\n"},
    )
    (tmp_path / "wheels").mkdir()
    wish = Wishes(requirements=Requirements(str(tmp_path / "requirements.txt"), str(tmp_path / "wheels")))
    context = SimpleNamespace(pythonExec=sys.executable)
    script = fitted(context, wish, place(tmp_path), ENGINE, None)
    assert script is not None and "hush" not in Path(script).read_text()
    done = started(script, tmp_path, "-c", "print('never')")
    assert done.returncode == 1 and not done.stdout and MARK in done.stderr
    assert "No matching distribution found for no-such-one" in done.stderr and "hush" not in done.stderr
    assert "hush" not in str(Outfit.from_json(outfit_of(wish, place(tmp_path), None, None).to_json()))
    told = translate(RuntimeError(f"Error from python worker:\n  {done.stderr}PYTHONPATH was:\n x"), "python")
    assert isinstance(told, ClusterError) and "requirements.txt could not be installed" in str(told)
    assert "PYTHONPATH" not in str(told)


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    context = SimpleNamespace(pythonExec=sys.executable)
    with pytest.raises(ConfigError, match="/no/python .* is not there"):
        fitted(context, Wishes(executable="/no/python"), place(tmp_path), ENGINE, None)
    path = archive(tmp_path / "venv.zip", {"a": ""})
    wish = Wishes(archives=(Archive.of(str(path)),), executable="venv.zip/bin/python")
    outfit = outfit_of(wish, place(tmp_path), wish.executable, None)
    with pytest.raises(ConfigError, match=r"venv.zip/bin/python .* is not in the archive"):
        put_on(outfit, place(tmp_path), ".", sys.executable)


def test_nothing_asked_for_is_the_session_s_own_python(tmp_path: Path) -> None:
    context = SimpleNamespace(pythonExec=sys.executable)
    for executable in (None, sys.executable):
        assert fitted(context, Wishes(executable=executable), place(tmp_path), ENGINE, None) is None
    with wearing(context, "/another"):
        assert context.pythonExec == "/another"
    with pytest.raises(ZeroDivisionError), wearing(context, "/another"):
        raise ZeroDivisionError
    assert context.pythonExec == sys.executable


def test_on_a_cluster_files_are_named_by_their_content(wishes: Wishes, tmp_path: Path) -> None:
    """Two archives of one name are two files there, and the script finds all beside itself."""
    sent: list[Path] = []

    def send(path: Path) -> str:
        sent.append(path)
        return path.name

    context = SimpleNamespace(pythonExec=sys.executable)
    first = fitted(context, wishes, place(tmp_path), ENGINE, send)
    archive(tmp_path / "data.zip", {"a.txt": "changed"})
    second = fitted(context, wishes, place(tmp_path), ENGINE, send)
    assert first is not None and first.startswith("./penstock-python-") and first != second
    names = [path.name for path in sent]
    assert len({name for name in names if name.endswith("data.zip")}) == 2
    write_files(tmp_path / "executor", {"penstock.zip": ""})
    for path in sent:
        shutil.copy2(path, tmp_path / "executor" / path.name)
    pack(list(members(Path(penstock.__file__).parent, "penstock")), tmp_path / "engine.zip")
    shutil.copy2(tmp_path / "engine.zip", tmp_path / "executor" / "penstock.zip")
    done = started(first, tmp_path / "executor", "-c", TELL)
    assert done.returncode == 0 and json.loads(done.stdout)["data"] == "a", done.stderr
    text = (place(tmp_path) / first).read_text()
    assert str(tmp_path / "place") not in text, "nothing of the driver's directories is in it"
