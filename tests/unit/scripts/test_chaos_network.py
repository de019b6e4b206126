"""Where the chaos run cuts the network and where it says why not; and that nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "scripts"))

import chaos
import chaos_network
from chaos_network import DRIVER, WORKERS, Hosts, NotAllowed, address, obstacle

from tests.patience import PATIENCE_S

ECHO = "import socket; s = socket.create_server(('{0}', 9)); print('up', flush=True)\nwhile True: s.accept()"


def test_who_is_not_root_or_lacks_a_tool_is_told_so() -> None:
    assert obstacle(1000) == "only root may make network namespaces"
    assert obstacle(0, lambda tool: None) == "there is no ip and no nsenter here"
    assert obstacle(0, lambda tool: None if tool == "nsenter" else tool) == "there is no nsenter here"
    assert obstacle(0, lambda tool: tool) is None


@pytest.mark.parametrize("why", ["only root may make network namespaces", "the kernel says no"])
def test_a_run_without_namespaces_says_why_in_a_sentence_and_goes_on_with_the_other_kinds(
    why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refuse(hosts: Hosts) -> None:
        raise NotAllowed(why)

    monkeypatch.setattr(chaos_network, "obstacle", lambda user: why if "root" in why else None)
    monkeypatch.setattr(Hosts, "_build", refuse)
    with chaos.place_to_run(None, tmp_path, with_network=True) as place:
        assert place == chaos.LOCAL_CLUSTER
        kinds = list(chaos.possible(list(chaos.KINDS), place, mounted=True))
    assert kinds == [kind for kind in chaos.KINDS if kind != "network"]
    assert capsys.readouterr().out == f"network cuts are left out: {why}.\n"


def test_a_master_of_ones_own_is_used_as_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with chaos.place_to_run("local[2]", tmp_path, with_network=True) as place:
        assert place == "local[2]"
    assert "not local[2]" in capsys.readouterr().out
    with chaos.place_to_run(None, tmp_path, with_network=False) as place:
        assert place == chaos.LOCAL_CLUSTER
    assert capsys.readouterr().out == ""


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    try:
        with Hosts() as made:
            yield made
    except (NotAllowed, FileNotFoundError) as error:
        pytest.skip(f"no namespaces here: {error}")


def reaches(hosts: Hosts, here: int, there: int, tries: int = 20) -> bool:
    """Whether a process on one host can connect to one on the other; what was cut takes a moment."""
    code = f"import socket; socket.create_connection(('{address(there)}', 9), timeout=0.3)"
    command = [*hosts.entry(here), sys.executable, "-c", code]
    return any(
        subprocess.run(command, capture_output=True, check=False).returncode == 0 for _ in range(tries)
    )


@pytest.mark.slow
def test_hosts_reach_each_other_unless_cut_and_all_is_removed(hosts: Hosts) -> None:
    first, second = WORKERS
    processes = []
    for host in (DRIVER, *WORKERS):
        command = [*hosts.entry(host), sys.executable, "-c", ECHO.format(address(host))]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None and process.stdout.readline() == "up\n"
    assert reaches(hosts, first, second) and reaches(hosts, second, DRIVER)
    with hosts.cut(first):
        assert not reaches(hosts, first, DRIVER, 1) and not reaches(hosts, second, first, 1)
        assert reaches(hosts, second, DRIVER)
    with hosts.apart():
        assert not reaches(hosts, first, second, 1) and reaches(hosts, first, DRIVER)
    assert reaches(hosts, first, second)
    names = list(hosts._made)
    hosts.__exit__()
    assert [process.wait(PATIENCE_S) for process in processes] == [-9] * 3
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert names and not any(name in left for name in names)
