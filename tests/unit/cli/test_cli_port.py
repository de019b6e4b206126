"""``penstock port``: files, directories, notebooks, and what is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from click.testing import CliRunner

from penstock.cli.main import cli

PROGRAM = "from pyflink.common import Types\nprint(Types.INT())\n"


def port(*arguments, status=0):
    result = CliRunner().invoke(cli, ["port", *map(str, arguments)])
    assert result.exit_code == status, result.output + result.stderr
    return result.output


def test_nothing_is_changed_without_write(tmp_path):
    program = tmp_path / "job.py"
    program.write_text(PROGRAM)
    told = port(program)
    assert program.read_text() == PROGRAM
    assert "to rewrite: line 1" in told and "--write" in told
    assert "+from penstock.common import Types" in port(program, "--diff")
    assert program.read_text() == PROGRAM


def test_a_written_program_runs_and_needs_nothing_more(tmp_path):
    program = tmp_path / "job.py"
    program.write_text(PROGRAM)
    program.chmod(0o750)
    port(tmp_path, "--write")
    assert program.stat().st_mode & 0o777 == 0o750
    assert os.listdir(tmp_path) == ["job.py"]
    assert "pyflink" not in program.read_text()
    assert subprocess.run([sys.executable, program], capture_output=True, text=True, check=True).stdout
    assert "rewrite (--write does it): 0" in port(tmp_path)


def test_bytes_outside_of_the_names_stay(tmp_path):
    latin, marked = tmp_path / "latin.py", tmp_path / "marked.py"
    latin.write_bytes(b"# -*- coding: latin-1 -*-\r\nimport pyflink\r\nx = '\xe9'; y = pyflink\r\n")
    marked.write_bytes(b"\xef\xbb\xbfimport pyflink\n")
    port(tmp_path, "--write")
    assert (
        latin.read_bytes() == b"# -*- coding: latin-1 -*-\r\nimport penstock\r\nx = '\xe9'; y = penstock\r\n"
    )
    assert marked.read_bytes() == b"\xef\xbb\xbfimport penstock\n"


def test_a_broken_file_is_named_and_the_others_go_on(tmp_path):
    (tmp_path / "a.py").write_text("import pyflink\ndef (:\n")
    (tmp_path / "b.py").write_bytes(b"import pyflink # \xff\n")
    (tmp_path / "c.py").write_bytes(b"# coding: martian\nimport pyflink\n")
    (tmp_path / "d.py").write_bytes(b"import pyflink\0\n")
    (tmp_path / "e.py").write_text("import pyflink\nx = " + "-" * 100_000 + "1\n")
    (tmp_path / "f.ipynb").write_text("pyflink?")
    (tmp_path / "g.py").symlink_to("/nowhere/pyflink.py")
    (tmp_path / "z.py").write_text(PROGRAM)
    told = port(tmp_path, "--write", status=1)
    assert "a.py:2: by hand: not read" in told
    assert all(f"{name}:1: by hand: not read" in told for name in ("b.py", "c.py", "f.ipynb"))
    assert "d.py:1" in told and "e.py:" in told and "g.py:1" in told
    assert "penstock" in (tmp_path / "z.py").read_text()
    assert (tmp_path / "a.py").read_text() == "import pyflink\ndef (:\n"


def test_directories_are_searched_without_those_of_others(tmp_path):
    for place in ("jobs/deep", ".git", "env/lib", "conda/lib", "x/site-packages/y", "__pycache__"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "job.py").write_text(PROGRAM)
    (tmp_path / "env/pyvenv.cfg").touch()
    (tmp_path / "conda/conda-meta").mkdir()
    (tmp_path / "jobs/notes.txt").write_text(PROGRAM)
    (tmp_path / "jobs/clean.py").write_text("import os\n")
    (tmp_path / "jobs/round").symlink_to(tmp_path / "jobs")
    told = json.loads(port(tmp_path, tmp_path / "jobs", "--json"))
    assert [found["path"] for found in told] == [str(tmp_path / "jobs/deep/job.py")]
    assert told[0]["rewritten_lines"] == [1] and told[0]["findings"] == []
    script = tmp_path / "jobs/notes.txt"
    port(script, "--write")
    assert "penstock" in script.read_text(), "a file that is named is a program whatever its name"


def test_what_has_no_equivalent_is_told_and_is_the_exit_status(tmp_path):
    program = tmp_path / "job.py"
    program.write_text("from pyflink.common import Types\n\nfrom pyflink.ml import Table\n")
    told = port(program, "--write", status=1)
    assert f"{program}:3: no equivalent: pyflink.ml: not there" in told
    assert program.read_text() == "from penstock.common import Types\n\nfrom pyflink.ml import Table\n"
    told = json.loads(port(program, "--json", status=1))
    assert told[0]["findings"][0]["line"] == 3
    assert told[0]["findings"][0]["kind"] == "no equivalent"


def test_notebooks_are_listed_by_cell_and_left_alone(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["use pyflink"]},
        {"cell_type": "code", "source": ["%pip install apache-flink pyflink\n", "import pyflink.common\n"]},
        {"cell_type": "code", "source": "from pyflink.ml import Table"},
        {"cell_type": "code", "source": "pyflink ="},
    ]
    book = tmp_path / "book.ipynb"
    book.write_text(json.dumps({"nbformat": 4, "cells": cells}))
    before = book.read_bytes()
    told = port(tmp_path, "--write", status=1)
    assert book.read_bytes() == before
    assert f"{book}:cell 2, line 2: by hand: pyflink: notebooks are not rewritten" in told
    assert f"{book}:cell 3, line 1: no equivalent: pyflink.ml" in told
    assert f"{book}:cell 4, line 1: by hand: not Python" in told
    assert "cell 1" not in told


def test_a_place_that_is_not_there_is_an_error(tmp_path):
    result = CliRunner().invoke(cli, ["port", str(tmp_path / "nowhere")])
    assert result.exit_code == 1 and "there is no file or directory" in result.stderr
    assert CliRunner().invoke(cli, ["port"]).exit_code == 2
