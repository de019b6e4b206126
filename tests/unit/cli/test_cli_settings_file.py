"""``penstock.yaml`` and Flink's ``config.yaml``: what they set, who wins, and what is said about mistakes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.cli.settings_file import find_settings, read_settings
from penstock.common import Configuration
from penstock.core.autoscaler_options import AUTOSCALER_OPTIONS
from penstock.core.config import find, layered
from penstock.core.errors import ConfigError
from penstock.core.flink_keys import OPEN
from penstock.core.option import Kind
from penstock.core.options import OPTIONS
from penstock.core.trace_options import TRACE_ENDPOINT
from penstock.datastream.job import running_program
from penstock.testing.local import local_cluster

PROGRAM = """
from penstock.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2, 3]).map(lambda value: value).print()
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FLINK_CONF_DIR", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def written(text: str, name: str = "penstock.yaml") -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def wrong(text: str | bytes) -> str:
    path = written("")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as error:
        read_settings(path)
    assert "\n" not in str(error.value), "one paragraph"
    return str(error.value)


# --- whose it is ---------------------------------------------------------------------------------


def test_a_file_that_others_have_put_here_is_not_read_unasked(place, monkeypatch):
    program = place / "program.py"
    program.write_text("")
    path = written("parallelism.default: 2")
    path.chmod(0o666)
    with pytest.raises(
        ConfigError, match=r"penstock.yaml in .*here, and everybody can write to it.*--config"
    ):
        find_settings(None, program)
    assert find_settings(path, program) is not None, "who asks for it trusts it"
    path.chmod(0o644)
    assert find_settings(None, program) is not None
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1000)
    assert find_settings(None, program) is not None, "who wrote the program can do anything anyway"
    if path.stat().st_uid != 0:  # else it is root's, whom everybody trusts
        with pytest.raises(ConfigError, match="it belongs to user"):
            find_settings(None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_nor_one_of_another_user(place):
    path = written("parallelism.default: 2")
    os.chown(path, 65534, -1)
    with pytest.raises(ConfigError, match="it belongs to user 65534: settings can run code"):
        find_settings(None)
    assert read_settings(path).settings == {"parallelism.default": "2"}


# --- reading ------------------------------------------------------------------------------------


def test_keys_are_flat_or_nested_or_both():
    found = read_settings(
        written(
            """
            parallelism.default: 4   # a comment
            execution:
              checkpointing:
                interval: 10 s
                unaligned.enabled: true
            restart-strategy:
              type: fixed-delay
              fixed-delay.attempts: 3
            state.backend.type: "rocksdb"
            python.files: [a.py, b.py]
            spark.executor.memory: 1g
            """
        )
    )
    assert found.settings == {
        "parallelism.default": "4",
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.unaligned.enabled": "true",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "state.backend.type": "rocksdb",
        "python.files": "a.py,b.py",
        "spark.executor.memory": "1g",
    }
    assert found.unused == ()


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "\ufeffparallelism.default: 2"])
def test_little_is_enough(text):
    assert read_settings(written(text)).settings in ({}, {"parallelism.default": "2"})


def test_values_are_what_was_written_not_what_yaml_makes_of_them():
    found = read_settings(written("pipeline.name: 2026-01-31\nexecution.savepoint.path: 012\n"))
    assert found.settings == {"pipeline.name": "2026-01-31", "execution.savepoint.path": "012"}


def test_a_configuration_of_flink_is_read_and_what_is_not_used_is_said():
    text = """
        env:
          java:
            opts:
              all: --add-exports=java.base/sun.net.util=ALL-UNNAMED
        jobmanager:
          bind-host: localhost
          rpc: {address: localhost, port: 6123}
        taskmanager:
          numberOfTaskSlots: 1
          memory: {network: {fraction: 0.1, min: 64mb, max: 1gb}}
        parallelism: {default: 1}
        high-availability.type: zookeeper
        rest.address: localhost
        state:
          backend: {type: hashmap, rocksdb.memory.fixed-per-tm: 1gb, rocksdb.thread.num: 4}
          checkpoints.dir: file:///tmp/checkpoints
        pipeline.serialization-config: [{org.example.A: {type: pojo}}]
        metrics.reporters: [a, b]
    """
    found = read_settings(written(text, "conf/config.yaml"))
    assert found.settings["state.checkpoints.dir"] == "file:///tmp/checkpoints"
    assert found.settings["taskmanager.memory.network.max"] == "1gb"
    assert {"high-availability.type", "jobmanager.rpc.port", "state.backend.rocksdb.thread.num"} <= set(
        found.unused
    )
    assert not set(found.unused) & OPTIONS.keys()
    assert found.said().count("\n") == 0 and "and 7 more" in found.said(), found.said()
    assert "jobmanager.rpc.address (instead: driver and slots find each other through Spark)" in found.said()
    Configuration.from_dict(found.settings).check()


def test_what_is_flinks_is_not_ours():
    ours = OPTIONS.keys() | {old for option in OPTIONS.values() for old in option.fallback_keys}
    assert {key for key in ours if key.startswith(OPEN)} == {TRACE_ENDPOINT.key, *AUTOSCALER_OPTIONS}
    assert find(TRACE_ENDPOINT.key) is TRACE_ENDPOINT, "ours is found first"
    text = "".join(f"{key}: ''\n" for key, option in OPTIONS.items() if option.kind is Kind.STRING)
    found = read_settings(written(text))
    assert found.unused == () and len(found.settings) > 20


def test_the_file_of_the_guide():
    guide = Path(__file__).parents[3] / "docs" / "guides" / "running.md"
    (text,) = re.findall(r"^```yaml\n(.*?)^```", guide.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    settings = read_settings(written(text)).settings
    assert settings["restart-strategy.fixed-delay.delay"] == "10 s" and len(settings) == 8


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nparalelism.default: 4", ["line 1", "'a'", "docs/configuration.md"]),
        ("\nparalelism.default: 4", ["penstock.yaml, line 2", "did you mean 'parallelism.default'"]),
        (
            "execution:\n  checkpointing:\n    intervall: 1 s",
            ["line 3", "'execution.checkpointing.interval'"],
        ),
        ("state.backend.rocksdb.local-dir: /tmp", ["line 1", "'state.backend.rocksdb.localdir'"]),
        ("parallelism.default: many", ["line 1", "'many' is not a whole number"]),
        ("pipeline.name: a\nparallelism.default: -3", ["line 2", "-3 will not do; it is at least 1"]),
        ("\ntaskmanager.data.port: 70000", ["line 2", "'70000' names no ports; write one (50000)"]),
        (
            "state.checkpoints.dir: a\nexecution.checkpointing.dir: b",
            ["line 2", "set in line 1 already as 'state.checkpoints.dir'"],
        ),
        ("pipeline.object-reuse: on", ["line 1", "'on' is not a boolean; write true or false"]),
        ("execution.checkpointing.interval: 5 parsecs", ["line 1", "execution.checkpointing.interval"]),
        ("state.backend.type: heap", ["line 1", "none of hashmap, rocksdb"]),
        ("pipeline.name:\n", ["line 1", "'pipeline.name' has no value"]),
        ("pipeline.name: {}", ["line 1", "'pipeline.name' has no value"]),
        ("pipeline.name: [[a]]", ["line 1", "'pipeline.name' has no value"]),
        ("pipeline.name: !!python/object/apply:os.system [ls]", ["line 1", "has no value"]),
        ("pipeline.name: !!python/name:os.system x", ["line 1", "'pipeline.name' has no value"]),
        ("pipeline.name: a\npipeline:\n  name: b", ["line 3", "set in line 1 already"]),
        ("- a\n- b", ["line 1", "'parallelism.default: 4'"]),
        ("just text", ["line 1", "'parallelism.default: 4'"]),
        ("a: b: c", ["line 1", "no YAML"]),
        ("a:\n\t- b", ["line 2", "no YAML"]),
        ("pipeline.name: 'never ends", ["no YAML"]),
        ("x: &a {y: *a}", ["line 1", "write out what *a stands for"]),
        ("? [a, b]\n: c", ["line 1", "the name of a setting is text"]),
        ("a: 1\n---\nb: 2", ["no YAML"]),
        ("[" * 100, ["no YAML"]),
        (b"\xff\xfe\x00", ["cannot be read"]),
        (b"pipeline.name: a\x07b", ["no YAML"]),
    ],
)
def test_mistakes_are_named_with_their_line(text, said):
    found = wrong(text)
    assert [part for part in said if part not in found] == [], found


def test_a_secret_in_a_mistake_is_not_told():
    assert "hunter2" not in wrong("state.backend.type: s3://me:hunter2@bucket")


def test_a_file_that_is_not_there_and_a_directory_without_one(place):
    with pytest.raises(ConfigError, match=r"nowhere.yaml cannot be read"):
        find_settings(Path("nowhere.yaml"))
    with pytest.raises(ConfigError, match=r"there is no penstock.yaml, config.yaml or flink-conf.yaml in"):
        find_settings(place)


# --- which file, and who wins -------------------------------------------------------------------


def test_one_file_is_read_the_nearest_one(tmp_path, monkeypatch):
    assert find_settings(None) is None
    monkeypatch.setenv("FLINK_CONF_DIR", str(tmp_path / "flink"))
    places = [tmp_path / "flink" / "config.yaml", tmp_path / "home" / "penstock.yaml", Path("penstock.yaml")]
    read = []
    for number, path in enumerate(places):
        written(f"pipeline.name: n{number}", str(path))
        found = find_settings(None)
        read.append(found and found.settings["pipeline.name"])
    chosen = find_settings(tmp_path / "flink")
    assert read == ["n0", "n1", "n2"] and chosen and chosen.settings == {"pipeline.name": "n0"}


def run(*args):
    with local_cluster(slots=2) as launcher:
        result = CliRunner().invoke(cli, ["run", *args])
    return result, launcher.jobs


def test_the_command_line_wins_then_the_program_then_the_file():
    written(
        "execution.checkpointing.timeout: 1 min\nexecution.checkpointing.min-pause: 1 s\n"
        "execution.checkpointing.interval: 1 h\n"
    )
    path = written(
        PROGRAM + "from penstock.common import Configuration\n"
        "env.configure(Configuration.from_dict({'execution.checkpointing.interval': '2 h',"
        " 'execution.checkpointing.min-pause': '2 s'}))\nenv.execute('job')\n",
        "program.py",
    )
    result, (job,) = run(str(path), "-D", "execution.checkpointing.interval=3 h")
    assert result.exit_code == 0, result.stderr
    settings = job.job.settings
    assert (settings.interval_ms, settings.min_pause_ms, settings.timeout_ms) == (10_800_000, 2_000, 60_000)
    assert "Settings from penstock.yaml." in result.stderr
    assert running_program().defaults == {}


def test_an_older_name_is_the_same_setting():
    assert layered({"state.backend.type": "rocksdb"}, {"state.backend": "hashmap"}).to_dict() == {
        "state.backend": "hashmap"
    }
    assert layered({"state.backend": "rocksdb"}, {}, {"state.backend.type": "hashmap"}).to_dict() == {
        "state.backend.type": "hashmap"
    }


def test_a_chosen_file_is_remembered_for_the_next_start(tmp_path):
    written("parallelism.default: 1", "other.yaml")
    path = written(
        PROGRAM + "from penstock.datastream.job import running_program\n"
        "print(running_program().started_by.command['config'])\nenv.execute('job')\n",
        "program.py",
    )
    result, (job,) = run("--config", "other.yaml", str(path))
    assert str(Path("other.yaml").absolute()) in result.output
    assert max(vertex.parallelism for vertex in job.job.plan.vertices) == 1


def test_a_wrong_file_stops_the_program_before_it_starts():
    written("paralelism.default: 1")
    result, jobs = run(str(written(PROGRAM + "env.execute('job')\n", "program.py")))
    assert result.exit_code == 1 and "penstock.yaml, line 1" in result.stderr and jobs == []
    assert "Traceback" not in result.stderr
