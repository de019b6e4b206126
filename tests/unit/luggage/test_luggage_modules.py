"""Which modules are the program's own, how they travel, and what a worker makes of them."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.luggage import arrival, found, staging
from penstock.luggage.archives import digest, file_digest, members, pack
from penstock.luggage.arrival import Hands, Luggage, Modules, Top, carrying, unpacked
from penstock.luggage.found import Found, is_installed, user_modules
from penstock.luggage.outfit import Parcel
from penstock.luggage.staging import own_path, staged_file, staged_module, top_of, travelling, unreachable
from tests.wheels import archive, compiled_files, wheel, write_files


@pytest.fixture(autouse=True)
def own_modules() -> Iterator[None]:
    """The path and the modules are afterwards what they were before."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A directory on the path."""
    sys.path.insert(1, str(tmp_path / "code"))
    (tmp_path / "code").mkdir()
    return tmp_path / "code"


def found_by_name() -> dict[str, Found]:
    return {one.name: one for one in user_modules()}


# --- which ones ---------------------------------------------------------------------------------


def test_packages_files_namespaces_and_archives_are_found(code: Path, tmp_path: Path) -> None:
    write_files(code, {"pk_a/__init__.py": "", "pk_ns/x.py": "", "pk_b.py": ""})
    write_files(tmp_path / "more", {"pk_ns/y.py": ""})
    zipped = archive(tmp_path / "lib.zip", {"sub/pk_z/__init__.py": ""})
    sys.path[1:1] = [str(tmp_path / "more"), f"{zipped}/sub"]
    for name in ("pk_a", "pk_ns.x", "pk_ns.y", "pk_b", "pk_z"):
        importlib.import_module(name)
    mine = found_by_name()
    assert mine["pk_a"].paths == (code / "pk_a",) and mine["pk_b"].paths == (code / "pk_b.py",)
    assert mine["pk_ns"].paths == (tmp_path / "more" / "pk_ns", code / "pk_ns")
    assert mine["pk_z"].paths == (zipped,) and mine["pk_z"].prefix == f"sub{os.sep}"
    assert not {"pyarrow", "json", "penstock", "pyspark", "__main__", "pytest"} & set(mine)


def test_what_functions_import_later_is_found(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the script and beside modules: it cannot be seen among what is loaded."""
    script = "def f():\n    import pk_late\n    from pk_pack.deep import x\n    import no_such_thing, json\n"
    late = "def g():\n    import pk_later\n"
    write_files(code, {"main.py": script, "pk_late.py": late, "pk_later.py": "", "pk_pack/__init__.py": ""})
    fake = ModuleType("__main__")
    fake.__file__ = str(code / "main.py")
    monkeypatch.setitem(sys.modules, "__main__", fake)
    assert {"pk_late", "pk_later", "pk_pack"} <= set(found_by_name())
    assert not {"pk_late", "pk_later", "pk_pack"} & set(sys.modules), "to look is not to import"


def test_odd_modules_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("not now") if name == "__path__" else AttributeError(name)

    odd: dict[str, Any] = {"pk_odd": Odd("pk_odd"), "pk_file": ModuleType("pk_file"), "pk_none": None}
    odd["pk_file"].__file__ = 7
    for name, module in odd.items():
        monkeypatch.setitem(sys.modules, name, module)
    assert not set(odd) & set(found_by_name())


def test_a_program_below_the_prefix_is_not_taken_for_installed() -> None:
    assert is_installed(json.__file__) and is_installed(pytest.__file__)
    assert not is_installed(Path(sys.base_prefix) / "src" / "app" / "job.py")


# --- whole --------------------------------------------------------------------------------------


def test_packages_travel_whole_and_without_rubbish(code: Path, tmp_path: Path) -> None:
    kept = {"pk_a/__init__.py": "", "pk_a/data/words.txt": "w", "pk_a/.hidden": "h", "pk_a/sub/m.py": ""}
    rubbish = {
        "pk_a/__pycache__/m.pyc": "",
        "pk_a/.git/config": "",
        "pk_a/venv/pyvenv.cfg": "",
        "pk_a/venv/x": "",
    }
    write_files(code, {**kept, **rubbish, **{f"pk_a/{k}": v for k, v in compiled_files("q").items()}})
    (code / "pk_a" / "loop").symlink_to(code / "pk_a")
    (code / "pk_a" / "dangling").symlink_to(code / "nowhere")
    files = travelling(Found("pk_a", (code / "pk_a",), True))
    names = {member.name for member in files}
    assert names == set(kept) | {f"pk_a/{name}" for name in compiled_files("q")}
    pack(files, tmp_path / "a.zip")
    pack(files, tmp_path / "b.zip")
    assert set(zipfile.ZipFile(tmp_path / "a.zip").namelist()) == names
    assert file_digest(tmp_path / "a.zip") == file_digest(tmp_path / "b.zip")
    assert top_of(Found("pk_a", (code / "pk_a",), True), files).platform == arrival.platform()


def test_a_directory_of_data_is_not_shipped_as_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any directory on the path can be imported from, a lake of files as well."""
    monkeypatch.setattr(staging, "MOST_FILES", 3)
    write_files(tmp_path / "lake", {f"{number}.parquet": "" for number in range(4)})
    with pytest.raises(ConfigError, match="'lake' .* is too large to travel"):
        travelling(Found("lake", (tmp_path / "lake",), True))


def test_two_that_pack_at_once_do_not_meet(tmp_path: Path) -> None:
    files = list(members(Path(json.__file__).parent, "json"))
    threads = [threading.Thread(target=pack, args=(files, tmp_path / "a.zip")) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]
    assert zipfile.ZipFile(tmp_path / "a.zip").testzip() is None


def test_a_digest_is_of_content_not_of_place_or_time(tmp_path: Path) -> None:
    for name, content in (("one", "a"), ("two", "a"), ("three", "b")):
        write_files(tmp_path / name, {"m.py": content})
    first, second, third = (digest(list(members(tmp_path / name))) for name in ("one", "two", "three"))
    assert first == second != third


# --- on one machine -----------------------------------------------------------------------------


def test_paths_keep_their_side_of_what_is_installed(code: Path, tmp_path: Path) -> None:
    sys.path.append(str(tmp_path))
    front, back = own_path()
    assert str(code) in front and str(tmp_path) in back and str(code) not in back


def test_modules_that_no_path_leads_to_are_linked(code: Path, tmp_path: Path) -> None:
    write_files(code, {"pk_a/__init__.py": "", "pk_a/words.txt": "w", "pk_b.py": ""})
    for name in ("pk_a", "pk_b"):
        importlib.import_module(name)
    mine = [one for name, one in found_by_name().items() if name in ("pk_a", "pk_b")]
    assert not unreachable(mine)
    sys.path.remove(str(code))
    lost = unreachable(mine)
    assert [one.name for one in lost] == ["pk_a", "pk_b"]
    stages = [stage for one in lost for stage in staged_module(one, tmp_path / "place")]
    assert (stages[0].directory / "pk_a" / "words.txt").read_text() == "w"
    assert (stages[1].directory / "pk_b.py").is_file()


def test_an_editable_installation_is_left_to_its_hook(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(code, {"pk_a/__init__.py": ""})
    importlib.import_module("pk_a")
    mine = [found_by_name()["pk_a"]]
    sys.path.remove(str(code))
    assert unreachable(mine)

    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.util.spec_from_file_location(name, code / name / "__init__.py")

    finder = type(
        "Finder", (), {"find_spec": staticmethod(find_spec), "__module__": "__editable___pk_a_finder"}
    )
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
    assert not unreachable(mine)


# --- files that were asked for ------------------------------------------------------------------


def test_files_are_put_on_the_path_as_pyflink_does(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {"m.py": "", "pack/__init__.py": "", "pack/json.py": "", "plain/n.py": "", "plain/sub/o.py": ""},
    )
    place = tmp_path / "place"
    names = {
        "m.py": (("",), ()),
        "pack": (("",), ("pack",)),
        "plain": (("plain",), ("",)),
    }
    for name, (front, back) in names.items():
        stage = staged_file(tmp_path / name, place)
        assert (stage.front, stage.back) == (front, back)
        assert (stage.directory / name).exists()
    made = wheel(tmp_path, "quick", compiled_files("quick"))
    assert any(".so" in path.name for path in (staged_file(made, place).directory / "quick").iterdir())


# --- in a worker --------------------------------------------------------------------------------


def test_what_was_edited_is_imported_anew_and_nothing_else(tmp_path: Path) -> None:
    write_files(tmp_path, {"pk_e.py": "VALUE = 1\n", "pk_ns/inner.py": "VALUE = 1\n"})
    first = Luggage((str(tmp_path),), fingerprint="1").to_json()
    with carrying(first, "."):
        before = [importlib.import_module(name) for name in ("pk_e", "pk_ns.inner", "json")]
    with carrying(first, "."):
        assert importlib.import_module("pk_e") is before[0], "the same luggage costs nothing"
    write_files(tmp_path, {"pk_e.py": "VALUE = 22\n"})
    with carrying(Luggage((str(tmp_path),), fingerprint="2").to_json(), "."):
        after = [importlib.import_module(name) for name in ("pk_e", "pk_ns.inner", "json")]
    assert after[0].VALUE == 22 and after[1] is not before[1] and after[2] is before[2]
    with carrying(Luggage().to_json(), "."):
        assert str(tmp_path) not in sys.path and "pk_e" not in sys.modules


def test_namespaces_in_namespaces_are_imported_anew(tmp_path: Path) -> None:
    """A namespace asks its parent where it is: with that gone from what is imported, it could not say."""
    write_files(tmp_path, {"pk_outer/inner/job.py": "VALUE = 1\n", "pk_outer/inner/later.py": "VALUE = 3\n"})
    with carrying(Luggage((str(tmp_path),), fingerprint="1").to_json(), "."):
        assert importlib.import_module("pk_outer.inner.job").VALUE == 1
    write_files(tmp_path, {"pk_outer/inner/job.py": "VALUE = 22\n"})
    with carrying(Luggage((str(tmp_path),), fingerprint="2").to_json(), "."):
        assert importlib.import_module("pk_outer.inner.job").VALUE == 22
        assert importlib.import_module("pk_outer.inner.later").VALUE == 3
    with carrying(Luggage().to_json(), "."):
        assert not [name for name in sys.modules if name.startswith("pk_outer")]


def test_what_is_behind_hides_nothing(tmp_path: Path) -> None:
    write_files(tmp_path, {"back/json/__init__.py": "", "back/pk_only_behind.py": ""})
    hands = Hands()
    hands.take_up(Luggage(back=(str(tmp_path / "back"),)), ".")
    assert "back" not in str(importlib.util.find_spec("json").origin)  # type: ignore[union-attr]
    assert importlib.util.find_spec("pk_only_behind") is not None
    hands.put_down()
    assert str(tmp_path / "back") not in sys.path


@pytest.fixture
def executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A worker's place."""
    own = tmp_path / "executor-1" / "blockmgr-1"
    own.mkdir(parents=True)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'gone'},{own}")
    return tmp_path / "executor-1" / "penstock-luggage"


def parcel_of(code: Path, *names: str) -> Modules:
    """Packages of a directory, packed as a driver does."""
    found = [Found(name, (code / name,), True) for name in names]
    trees = [travelling(one) for one in found]
    pack([member for tree in trees for member in tree], code / "parcel.zip")
    tops = tuple(top_of(one, tree) for one, tree in zip(found, trees, strict=True))
    return Modules(Parcel("parcel.zip", file_digest(code / "parcel.zip"), "the modules"), tops)


def test_what_a_worker_has_is_not_hidden(tmp_path: Path, executor: Path) -> None:
    """The same content: its own. Another: what travelled. All the same: nothing is unpacked."""
    driver, own = tmp_path / "driver", tmp_path / "own"
    write_files(
        driver, {"pk_same/__init__.py": "a", "pk_other/__init__.py": "new", "pk_lack/__init__.py": ""}
    )
    write_files(own, {"pk_same/__init__.py": "a", "pk_other/__init__.py": "old"})
    modules = parcel_of(driver, "pk_same", "pk_other", "pk_lack")
    sys.path.insert(1, str(own))
    given = unpacked(modules, str(driver))
    assert given is not None and given.parent == executor
    assert sorted(path.name for path in given.iterdir()) == ["pk_lack", "pk_other"]
    assert (given / "pk_other" / "__init__.py").read_text() == "new"
    same = Modules(modules.parcel, modules.tops[:1])
    assert unpacked(same, str(driver)) is None


def test_compiled_modules_of_another_platform_are_refused(
    tmp_path: Path, executor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = tmp_path / "driver"
    write_files(driver, dict(compiled_files("pk_quick")))
    modules = parcel_of(driver, "pk_quick")
    given = unpacked(modules, str(driver))
    assert given is not None and (given / "pk_quick").is_dir(), "on the same platform it travels"
    monkeypatch.setattr(arrival, "platform", lambda: "macosx-14-arm64 cpython-311")
    with pytest.raises(ConfigError, match=r"'pk_quick' has compiled parts .* Install it where they run"):
        unpacked(modules, str(driver))
    write_files(tmp_path / "own", {"pk_quick/__init__.py": "its own"})
    sys.path.insert(1, str(tmp_path / "own"))
    assert unpacked(modules, str(driver)) is None, "a worker's own is the one that fits"


def test_a_parcel_that_is_not_what_was_sent_is_refused(tmp_path: Path, executor: Path) -> None:
    write_files(tmp_path, {"pk_x/__init__.py": ""})
    modules = parcel_of(tmp_path, "pk_x")
    (tmp_path / "parcel.zip").write_bytes(b"other")
    with pytest.raises(ConfigError, match="has changed since the job was started"):
        unpacked(modules, str(tmp_path))
    (tmp_path / "parcel.zip").unlink()
    with pytest.raises(ConfigError, match="did not arrive"):
        unpacked(modules, str(tmp_path))
    assert not [path for path in executor.iterdir() if path.suffix != ".lock"]


def test_luggage_as_text() -> None:
    modules = Modules(Parcel("f", "d", "c"), (Top("n", "d", None), Top("m", "e", "p")), ("a",), ("b",))
    luggage = Luggage(("x",), ("y",), (modules,), "print")
    assert Luggage.from_json(luggage.to_json()) == luggage
    engine = str(Path(found.__file__).parents[2])
    bare = f"import sys; sys.path.insert(0, {engine!r}); import penstock.luggage.outfit"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", bare], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"needs more than the standard library: {done.stderr}"
