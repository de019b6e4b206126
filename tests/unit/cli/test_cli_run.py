"""``penstock run`` and the door."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from penstock import __version__
from penstock.cli.main import COMMANDS, cli
from penstock.cli.output import line
from penstock.datastream.job import running_program
from penstock.testing.local import local_cluster

PROGRAM = """
import sys
from penstock.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
stream = env.from_collection([1, 2, 3]).map(lambda value: 6 // value)
"""


@pytest.fixture
def script(tmp_path):
    def write(text, name="program.py"):
        path = tmp_path / name
        path.write_text(PROGRAM + text)
        return str(path)

    return write


def run(*args):
    with local_cluster(slots=2) as launcher:
        result = CliRunner().invoke(cli, ["run", *args])
    return result, launcher.jobs


def test_every_command_has_help():
    for name in COMMANDS:
        result = CliRunner().invoke(cli, [name, "--help"])
        assert result.exit_code == 0 and "Usage:" in result.output, name
    result = CliRunner().invoke(cli, ["--help"])
    assert all(name in result.output for name in COMMANDS)
    assert __version__ in CliRunner().invoke(cli, ["--version"]).output


def test_help_loads_nothing_heavy():
    code = (
        "import sys\nfrom penstock.cli.main import cli\ncli(['--help'], standalone_mode=False)\n"
        "print(sorted({'pyspark', 'matplotlib', 'pyarrow', 'numpy', 'rich'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "[]"


def test_programs_load_neither_spark_nor_pandas_before_they_need_them():
    code = "import sys, penstock.datastream\nprint(sorted({'pyspark', 'pandas'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"


def test_bad_usage_is_status_2():
    assert CliRunner().invoke(cli, ["fly"]).exit_code == 2
    assert CliRunner().invoke(cli, ["run"]).exit_code == 2
    assert CliRunner().invoke(cli, ["run", "-p", "0", "x.py"]).exit_code == 2


def test_a_program_runs_as_main_with_its_arguments_and_neighbours(script, tmp_path):
    (tmp_path / "neighbour_of_program.py").write_text("WORD = 'hello'")
    path = script(
        "import neighbour_of_program\n"
        "print(__name__, neighbour_of_program.WORD, sys.argv[1:])\n"
        "print(sorted(stream.execute_and_collect()))\n"
    )
    before = running_program()
    result, jobs = run(path, "in", "--rate", "5", "--", "-p", "x")
    assert result.exit_code == 0, result.stderr
    assert "__main__ hello ['in', '--rate', '5', '-p', 'x']" in result.output
    assert "[2, 3, 6]" in result.output
    assert len(jobs) == 1
    assert str(tmp_path) not in sys.path and running_program() == before


def test_settings_from_outside_win(script):
    path = script("env.set_parallelism(1)\nstream.print()\nenv.execute()\n")
    settings = ["-p", "2", "--name", "renamed", "-D", "execution.checkpointing.interval=1 min"]
    result, (job,) = run(path, *settings, "--master", "local[3]", "--allow-non-restored-state")
    assert result.exit_code == 0, result.stderr
    assert job.job.plan.job_name == "renamed"
    assert max(vertex.parallelism for vertex in job.job.plan.vertices) == 2
    assert job.job.settings.interval_ms == 60_000
    assert job.job.settings.allow_non_restored
    assert job.job.configuration.to_dict()["spark.master"] == "local[3]"
    assert line(job, 61).startswith("renamed: FINISHED for 1 min 1 s")


def test_a_snapshot_that_is_not_there(script, tmp_path):
    path = script("stream.print()\nenv.execute()\n")
    result, _ = run(path, "-s", str(tmp_path / "chk-9"))
    assert result.exit_code == 1 and "chk-9" in result.stderr and "Traceback" not in result.stderr


def test_missing_program():
    result, _ = run("nowhere.py")
    assert result.exit_code == 1 and "there is no program 'nowhere.py'" in result.stderr


def test_a_program_that_never_executes(script):
    result, _ = run(script("stream.print()\n"))
    assert result.exit_code == 1
    assert "the script ended without calling env.execute()" in result.stderr


def test_a_program_that_leaves_its_job_behind(script, tmp_path):
    text = (
        "from penstock.connectors.log import Log, LogSource, Text\n"
        "from penstock.common import WatermarkStrategy\n"
        f"Log({str(tmp_path)!r}).create_topic('t')\n"
        f"source = LogSource({str(tmp_path)!r}, 't', Text())\n"
        "env.from_source(source, WatermarkStrategy.no_watermarks(), 't').print()\n"
        "env.execute_async('left')\n"
    )
    result, (job,) = run(script(text))
    assert result.exit_code == 1 and "ended while its job was running (left)" in result.stderr
    assert job.status().name == "CANCELED"


def test_the_programs_own_error_is_shown_without_engine_frames(script):
    result, _ = run(script("def broken():\n    raise ValueError('mine')\nbroken()\n"))
    assert result.exit_code == 1
    assert "ValueError: mine" in result.stderr and "in broken" in result.stderr
    assert "runpy" not in result.stderr and "penstock/cli" not in result.stderr


def test_an_error_in_a_function_names_the_step_and_the_line(script):
    path = script("stream.map(lambda value: 1 // (value - 3)).print()\nenv.execute()\n")
    result, _ = run(path)
    assert result.exit_code == 1
    assert "ZeroDivisionError" in result.stderr and "step 'Map'" in result.stderr
    assert f"({path}, line 7)" in result.stderr
    assert "penstock/operators" not in result.stderr


def test_debug_gives_the_whole_traceback(script):
    path = script("raise ValueError('mine')\n")
    with local_cluster():
        result = CliRunner().invoke(cli, ["--debug", "run", path])
    assert isinstance(result.exception, ValueError)


def test_exit_status_of_the_program_is_kept(script):
    result, _ = run(script("stream.print()\nenv.execute()\nsys.exit(7)\n"))
    assert result.exit_code == 7


@pytest.mark.parametrize("setting", ["nonsense", "=1"])
def test_settings_need_a_key(script, setting):
    result, _ = run("-D", setting, script(""))
    assert result.exit_code == 2 and "KEY=VALUE" in result.stderr


def test_unknown_settings_are_refused_before_the_program_runs(script):
    result, _ = run("-D", "no.such=1", script("print('ran')\n"))
    assert result.exit_code == 1 and "no.such" in result.stderr and "ran" not in result.stdout


def test_flinks_python_options(script, tmp_path):
    """On the path of the program and of its functions; the rest are the settings of that meaning."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "cli_given.py").write_text("NUMBER = 6\n")
    (tmp_path / "data.zip").write_bytes(b"PK\5\6" + bytes(18))
    text = "import cli_given\nprint(cli_given.NUMBER, dict(sorted(env.configuration().to_dict().items())))\n"
    program = script(text + "stream.print()\nenv.execute()\n")
    files = f"{tmp_path}/elsewhere/cli_given.py"
    given = ["-pyfs", files, "-pyarch", f"{tmp_path}/data.zip#d", "-pyexec", sys.executable, "-p1"]
    result, jobs = run(*given, program)
    assert result.exit_code == 0, result.output
    settings = {"python.files": files, "python.archives": f"{tmp_path}/data.zip#d"}
    for key, value in settings.items():
        assert f"{key!r}: {value!r}" in result.output
    assert result.output.startswith("6 ") or "\n6 " in result.output
    assert len(jobs) == 1 and str(tmp_path / "elsewhere") not in sys.path
    sys.modules.pop("cli_given", None)
    result, _ = run("--pyRequirements", f"{tmp_path}/no.txt#w", program)
    assert result.exit_code != 0
