"""``penstock doctor``: what is wrong with a machine is named, with what to do about it."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from penstock.cli import doctor
from penstock.cli.doctor import Verdict
from penstock.cli.main import cli
from penstock.testing.local import local_cluster


def test_doctor_finds_this_machine_well(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    result = CliRunner().invoke(cli, ["doctor", "--fast"])
    assert result.exit_code == 0, result.output
    for word in ("Python", "Java", "pyspark", "pyarrow", "pandas", "loopback", str(tmp_path)):
        assert word in result.output


def test_doctor_runs_a_job(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    with local_cluster(slots=2):
        result = CliRunner().invoke(cli, ["doctor"])
    assert result.exit_code == 0 and "a job on two slots" in result.output


def test_doctor_fails_without_java_and_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = CliRunner().invoke(cli, ["doctor", "--fast"])
    assert result.exit_code == 1 and "fail" in result.output and "install a JRE" in result.output


def test_doctor_knows_versions_that_do_not_fit(monkeypatch):
    monkeypatch.setattr(doctor.importlib.metadata, "version", lambda name: "3.5.1")
    found = doctor.check_package("pyspark")
    assert found.verdict is Verdict.FAIL and "pyspark>=4.1,<4.4" in found.remedy


@pytest.mark.parametrize(
    ("python", "words"),
    [("/nowhere/python", "No such file"), ("false", "it failed"), ("echo", "not 3.")],
)
def test_doctor_finds_workers_that_run_another_python(python, words, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    found = doctor.check_workers()
    assert found.verdict is Verdict.FAIL and words in found.what and "Unset" in found.remedy


def test_doctor_finds_workers_that_run_this_python(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert doctor.check_workers().verdict is Verdict.OK


def test_doctor_warns_of_what_will_be_short(monkeypatch, tmp_path):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(doctor.socket, "gethostname", lambda: "no.such.machine.invalid")
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda _: (256, 4096))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "missing"))
    host, files = doctor.check_host(), doctor.check_descriptors()
    room, workers = doctor.check_room(), doctor.check_workers()
    assert {found.verdict for found in (host, files, room)} == {Verdict.WARN}
    assert "/etc/hosts" in host.remedy and "ulimit -n 4096" in files.remedy
    assert "SPARK_LOCAL_DIRS" in room.remedy
    assert workers.verdict is Verdict.OK
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(doctor, "_ROOM", 1 << 60)
    assert "MB left" in doctor.check_room().what


def test_doctor_warns_about_a_home_it_cannot_write(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "file" / "home"))
    result = CliRunner().invoke(cli, ["doctor", "--fast"])
    assert result.exit_code == 0 and "PENSTOCK_HOME" in result.output


def test_doctor_refuses_spark_connect_and_keeps_its_address_to_itself(monkeypatch):
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    assert doctor.check_connect().verdict is Verdict.OK
    monkeypatch.setenv("SPARK_REMOTE", "sc://head:15002/;token=hush")
    found = doctor.check_connect()
    assert found.verdict is Verdict.FAIL and "PEN-0705" in found.remedy and "hush" not in found.what


@pytest.mark.parametrize(
    ("jars", "verdict", "words"),
    [
        (["spark-core_2.13-4.3.0.jar"], Verdict.OK, "Spark 4.3 at"),
        (["spark-core_2.13-4.3.1-SNAPSHOT.jar"], Verdict.OK, "Spark 4.3 at"),
        (["spark-core_2.12-3.5.1.jar"], Verdict.FAIL, "Spark 3.5 at"),
        (["spark-sql_2.13-4.3.0.jar"], Verdict.FAIL, "there is no Spark at"),
        ([], Verdict.FAIL, "there is no Spark at"),
    ],
)
def test_doctor_looks_at_the_spark_that_is_named(jars, verdict, words, tmp_path, monkeypatch):
    (tmp_path / "jars").mkdir()
    for name in jars:
        (tmp_path / "jars" / name).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(doctor.importlib.metadata, "version", lambda name: "4.3.0")
    found = doctor.check_spark_home()
    assert found.verdict is verdict and words in found.what
    assert verdict is Verdict.OK or "Unset SPARK_HOME" in found.remedy


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("spark.dynamicAllocation.enabled  true", Verdict.WARN),
        (" spark.dynamicAllocation.enabled=TRUE", Verdict.WARN),
        ("spark.dynamicAllocation.enabled: true ", Verdict.WARN),
        ("# spark.dynamicAllocation.enabled true", Verdict.OK),
        ("spark.dynamicAllocation.enabled false", Verdict.OK),
        ("spark.dynamicAllocation.enabled", Verdict.OK),
    ],
)
@pytest.mark.parametrize("variable", ["SPARK_CONF_DIR", "SPARK_HOME"])
def test_doctor_reads_what_spark_reads(line, verdict, variable, tmp_path, monkeypatch):
    for name in ("SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    place = tmp_path / "conf" if variable == "SPARK_HOME" else tmp_path
    place.mkdir(exist_ok=True)
    (place / "spark-defaults.conf").write_text(f"spark.app.name x\n{line}\n", encoding="utf-8")
    assert doctor.check_defaults().what == "no spark-defaults.conf is read"
    monkeypatch.setenv(variable, str(tmp_path))
    found = doctor.check_defaults()
    assert found.verdict is verdict and str(place) in found.what
    assert ("PEN-0703" in found.remedy) is (verdict is Verdict.WARN)


def test_doctor_reads_the_settings_that_a_program_would_get(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FLINK_CONF_DIR", raising=False)
    assert doctor.check_settings().what == "no file of settings is read here"
    file = tmp_path / "penstock.yaml"
    file.write_text("parallelism.default: 4\n", encoding="utf-8")
    assert doctor.check_settings().what == "Settings from penstock.yaml."
    file.write_text("parallelism.default: many\n", encoding="utf-8")
    found = doctor.check_settings()
    assert found.verdict is Verdict.FAIL and "line 1" in found.what and "[PEN-01" in found.what


def test_doctor_warns_when_memory_is_short(tmp_path, monkeypatch):
    meminfo = tmp_path / "meminfo"
    monkeypatch.setattr(doctor, "_MEMINFO", meminfo)
    assert doctor.check_memory().what == "this system does not say how much memory is free"
    meminfo.write_text("MemTotal: 16000000 kB\nMemAvailable: 500000 kB\n", encoding="ascii")
    found = doctor.check_memory()
    assert found.verdict is Verdict.WARN and "only 512 MB" in found.what and "2 GB" in found.remedy
    meminfo.write_text("MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n", encoding="ascii")
    assert doctor.check_memory().verdict is Verdict.OK
