"""Directories that others could put a snapshot into are refused; those of one's own are not."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.common import Configuration
from penstock.core.errors import ConfigError
from penstock.datastream import StreamExecutionEnvironment
from penstock.snapshot.owners import check_owners
from penstock.testing.local import local_cluster

NOBODY = 65534


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "chk"
    made.mkdir(0o700)
    yield made
    made.chmod(0o700)


def refused(place: Path, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        check_owners(str(place))
    told = str(error.value)
    assert "penstock.restore.others-may-write" in told and "chmod go-w" in told and "\n" not in told


def test_ones_own_directory_will_do(place: Path) -> None:
    for mode in (0o700, 0o750, 0o755, 0o500):
        place.chmod(mode)
        check_owners(str(place))
        check_owners(place.as_uri())
        check_owners(str(place / "not" / "there" / "yet"))
    assert not (place / "not").exists(), "it only looks"


@pytest.mark.parametrize("mode", [0o777, 0o702, 0o1777])
def test_a_directory_that_everybody_can_write_to(place: Path, mode: int) -> None:
    place.chmod(mode)
    refused(place, "can be written by everybody")


def test_a_directory_that_a_group_can_write_to(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.chmod(0o770)
    me = pwd.getpwuid(os.geteuid())

    def group(name: str, *members: str) -> grp.struct_group:
        return grp.struct_group((name, "x", place.stat().st_gid, list(members)))

    def user(number: int) -> pwd.struct_passwd:
        return pwd.struct_passwd((me.pw_name, "x", number, place.stat().st_gid, "", "", ""))

    monkeypatch.setattr(pwd, "getpwuid", user)
    monkeypatch.setattr(grp, "getgrgid", lambda number: group("staff"))
    refused(place, "by the group staff")
    monkeypatch.setattr(grp, "getgrgid", lambda number: group(me.pw_name, "somebody"))
    refused(place, "by the group")
    monkeypatch.setattr(grp, "getgrgid", lambda number: group(me.pw_name))
    check_owners(str(place))


@pytest.mark.parametrize("below", ["", "job", "a/b"])
def test_a_directory_above_that_others_can_write_to(place: Path, below: str) -> None:
    """They could put another directory in the place of the one that is named."""
    inner = place / "inner"
    (inner / below).mkdir(0o700, parents=True)
    place.chmod(0o777)
    refused(inner / below, f"{place} can be written by everybody")
    place.chmod(0o1777)
    check_owners(str(inner / below))


def test_a_directory_of_somebody_else(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(place, NOBODY, -1)
        refused(place, "belongs to")
        (place / "mine").mkdir(0o700)
        refused(place / "mine", f"{place} belongs to")
    else:
        monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
        refused(place, "belongs to")


def test_a_link_is_judged_by_where_it_leads(place: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(place)
    check_owners(str(tmp_path / "link"))
    place.chmod(0o777)
    refused(tmp_path / "link", "can be written by everybody")


@pytest.mark.parametrize("name", ["link", "link/below", "second", "up"])
def test_a_link_is_judged_by_where_it_lies(place: Path, tmp_path: Path, name: str) -> None:
    """Who can put another link there decides what is restored, wherever this one leads."""
    (place / "real" / "below").mkdir(0o700, parents=True)
    around = tmp_path / "around"
    around.mkdir(0o700)
    (around / "link").symlink_to(place / "real")
    (tmp_path / "second").symlink_to("around/link")
    (tmp_path / "up").symlink_to(place / ".." / "around" / "link" / "below")
    chosen = around / name if name.startswith("link") else tmp_path / name
    check_owners(str(chosen))
    around.chmod(0o777)
    refused(chosen, f"{around} can be written by everybody")
    around.chmod(0o1777)
    check_owners(str(chosen))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_a_link_of_somebody_else_is_refused(place: Path, tmp_path: Path) -> None:
    link = tmp_path / "theirs"
    link.symlink_to(place)
    os.chown(link, NOBODY, -1, follow_symlinks=False)
    refused(link, f"{link} belongs to")


def test_what_is_not_local_has_rights_of_its_own() -> None:
    check_owners("s3://bucket/checkpoints")
    with pytest.raises(ConfigError, match="empty"):
        check_owners("")


@pytest.mark.parametrize("key", ["execution.checkpointing.dir", "execution.state-recovery.path"])
def test_a_job_is_refused_before_it_reads_anything(place: Path, key: str) -> None:
    place.chmod(0o777)
    config = Configuration()
    config.set_string(key, str(place))
    with local_cluster(), pytest.raises(ConfigError, match="can be written by everybody"):
        env = StreamExecutionEnvironment.get_execution_environment(config)
        env.from_collection([1]).print()
        env.execute("planted")
    if key == "execution.checkpointing.dir":
        config.set_string("penstock.restore.others-may-write", "true")
        with local_cluster():
            env = StreamExecutionEnvironment.get_execution_environment(config)
            assert list(env.from_collection([1]).execute_and_collect()) == [1]
