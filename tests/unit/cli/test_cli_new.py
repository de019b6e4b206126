"""``penstock new``: the project's own tests pass, its job runs, and nothing of anybody's is replaced."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib

import pytest
import yaml
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.cli.new import PROJECT
from penstock.testing.local import local_cluster


def new(place, status=0):
    result = CliRunner().invoke(cli, ["new", str(place)])
    assert result.exit_code == status, result.output + result.stderr
    return " ".join((result.output + result.stderr).split())


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    place = tmp_path_factory.mktemp("projects") / "deep" / "my-shop.2"
    new(place)
    return place


def test_its_tests_pass(shop):
    run = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    done = subprocess.run(run, cwd=shop, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


def test_its_job_runs(shop, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(shop))
    names = {"__name__": "job"}
    exec(compile((shop / "job.py").read_text(), "job.py", "exec"), names)
    with local_cluster(slots=2):
        names["main"]([])
    totals = [ast.literal_eval(line.split("> ")[-1]) for line in capsys.readouterr().out.splitlines()]
    assert sorted(total["orders"] for total in totals) == [1, 1, 2]


def test_all_its_files_are_there_and_filled_in(shop):
    texts = {target: (shop / target).read_text() for target in PROJECT.values()}
    assert not {
        target for target, text in texts.items() if "@" in text.replace("actions/", "").replace("@v", "")
    }
    assert 'env.execute("my-shop.2")' in texts["job.py"]
    assert texts["requirements.txt"].startswith("penstock~=0.")
    assert tomllib.loads(texts["pyproject.toml"])["tool"]["pytest"]
    assert yaml.safe_load(texts[".github/workflows/test.yml"])["jobs"]["test"]["steps"]


@pytest.mark.parametrize(
    "name", ["my shop", "-x", "a'b", 'a"b', "größe", "a\nb", ".hidden", "x" * 64, "$(x)"]
)
def test_odd_names_are_refused(name, tmp_path):
    assert "cannot be called" in new(tmp_path / name, 1)
    assert os.listdir(tmp_path) == []


def test_what_is_there_stays(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / ".notes").write_text("keep")
    (tmp_path / "file").write_text("keep")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    assert "is not empty" in new(tmp_path / "mine", 1)
    assert "is a file" in new(tmp_path / "file", 1)
    assert "leads nowhere" in new(tmp_path / "nowhere", 1)
    assert "cannot be written" in new(tmp_path / "file" / "below", 1)
    assert sorted(os.listdir(tmp_path)) == ["file", "mine", "nowhere"]
    assert os.listdir(tmp_path / "mine") == [".notes"]


def test_an_empty_directory_is_filled(tmp_path, monkeypatch):
    (tmp_path / "Empty__").mkdir()
    monkeypatch.chdir(tmp_path / "Empty__")
    assert "Empty__ is in" in new(".")
    assert "docker build -t empty ." in (tmp_path / "Empty__" / "README.md").read_text()
    assert "is not empty" in new(".", 1)
