"""Stored pickles: data comes back, and nothing that was planted among it is looked up, let alone called."""

from __future__ import annotations

import array
import builtins
import collections
import datetime
import decimal
import enum
import fractions
import importlib
import ipaddress
import os
import pathlib
import pickle
import subprocess
import sys
import types
import uuid
import zoneinfo
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import Tensor

from penstock.connectors.combinators.table_versions import TableVersion
from penstock.connectors.source import Split
from penstock.core import unpickling
from penstock.core.errors import SnapshotError
from penstock.core.keys import NAN
from penstock.core.packed import PackedNames, pack, unpack
from penstock.core.pickling import dumps
from penstock.core.row import Row
from penstock.core.unpickling import Allowed, allow, allowed_by_program, loads_stored
from penstock.operators.window.windows import GlobalWindow, TimeWindow
from penstock.state.files import _unpickled as blocks
from penstock.state.rocks import values


class Click(NamedTuple):
    url: str


class Colour(enum.Enum):
    RED = 1


class Basket:
    class Item:
        def __init__(self, name: str) -> None:
            self.name = name

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Basket.Item) and other.name == self.name

        __hash__ = None  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, empty in (("_patterns", set()), ("_modules", set()), ("_imported", set()), ("_resolved", {})):
        monkeypatch.setattr(unpickling, name, empty)


DATA: list[Any] = [
    {"a": [1, 2.5, None, True, b"x", "ci\n"]},
    (
        1 << 80,
        complex(1, 2),
        range(3),
        slice(1, 2),
        bytearray(b"x"),
        frozenset({1}),
        {2},
        ...,
        NotImplemented,
    ),
    [datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), datetime.time(3)],
    [
        datetime.timedelta(1),
        datetime.timezone(datetime.timedelta(hours=2)),
        zoneinfo.ZoneInfo("Europe/Berlin"),
    ],
    [decimal.Decimal("1.50"), fractions.Fraction(1, 3), uuid.UUID(int=7), ipaddress.ip_address("10.0.0.1")],
    [collections.deque([1], 3), collections.Counter("aab"), collections.OrderedDict(a=1)],
    [collections.defaultdict(list, a=[1]), array.array("d", [1.0]), types.SimpleNamespace(a=1)],
    [pathlib.PurePosixPath("a/b"), ValueError("x").args],
    [np.int64(3), np.float32(1.5), np.datetime64("2024-01-01"), np.dtype("int32"), np.bool_(True)],
    [pd.Timestamp("2024-01-01", tz="UTC"), pd.Timedelta(1, "s")],
    [pa.int64(), pa.timestamp("us"), pa.schema([("a", pa.list_(pa.string()))]), pa.array([1, None])],
    [pa.record_batch([pa.array(["x"])], ["a"]), pa.table({"a": [1]}), pa.scalar(1), pa.decimal128(5, 2)],
    [pa.struct([("a", pa.int8())]), pa.map_(pa.string(), pa.int64()), pa.dictionary(pa.int8(), pa.string())],
    [Row(a=1), Row(1, 2), TimeWindow(0, 5), GlobalWindow(), Split("s", {"a": 1}), PackedNames((b"x",))],
    [Click("x"), Colour.RED, Basket.Item("y")],
]


@pytest.mark.parametrize("value", DATA, ids=range(len(DATA)))
@pytest.mark.parametrize("protocol", [4, 5])
def test_data_comes_back(value: Any, protocol: int) -> None:
    assert loads_stored(pickle.dumps(value, protocol)) == value
    assert loads_stored(memoryview(dumps(value))) == value


def test_arrays_and_nan_come_back() -> None:
    found = loads_stored(dumps([np.arange(6).reshape(2, 3), pd.DataFrame({"a": [1, 2]}), pd.Series(["x"])]))
    assert found[0].tolist() == [[0, 1, 2], [3, 4, 5]] and found[1]["a"].tolist() == [1, 2]
    assert loads_stored(dumps(NAN)) is NAN


class Calls:
    """A pickle that calls something when it is loaded."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.how = function, arguments

    def __reduce__(self) -> Any:
        return self.how


def made_here() -> type:
    class Local:
        pass

    return Local


def attacks(proof: str) -> dict[str, bytes]:
    """Ways to have a file made by a pickle."""
    command = f"touch {proof}"
    code = f"__import__('os').system({command!r})"
    by_hand = (f"cos\nsystem\n(V{command}\ntR.", f"(S{command!r}\nios\nsystem\n.")
    return {
        "os.system": pickle.dumps(Calls(os.system, command)),
        "os.system, old protocol": pickle.dumps(Calls(os.system, command), 0),
        "by hand": by_hand[0].encode(),
        "by hand, as an instance": by_hand[1].encode(),
        "subprocess": pickle.dumps(Calls(subprocess.Popen, ["touch", proof])),
        "eval": pickle.dumps(Calls(builtins.eval, code)),
        "exec": pickle.dumps(Calls(builtins.exec, code)),
        "open": pickle.dumps(Calls(open, proof, "w")),
        "pickle within": pickle.dumps(Calls(pickle.loads, pickle.dumps(Calls(os.system, command)))),
        "our own loads": pickle.dumps(Calls(sys.modules["penstock.core.pickling"].loads, b"")),
        "our own unload": b"cpenstock.core.pickling\n_unload\n(C\x01x}tR.",
        "by value": cloudpickle.dumps(Calls(lambda: os.system(command))),
        "through a module of the program": f"c{__name__}\nos.system\n(V{command}\ntR.".encode(),
        "through a package": b"\x80\x04\x8c\x08datetime\x8c\x0asys.intern\x93\x8c\x01x\x85R.",
        "a function of the program": f"c{__name__}\nattacks\n(Vx\ntR.".encode(),
        "through globals": b"\x80\x04\x8c\x11penstock.core.row\x8c\x14_restore.__globals__\x93.",
        "numpy's file": pickle.dumps(Calls(np.memmap, proof, "uint8", "w+", 0, (1,))),
        "pandas' pickle": pickle.dumps(Calls(pd.read_pickle, proof)),
        "arrow's file": pickle.dumps(Calls(pa.OSFile, proof, "wb")),
        "getattr": b"cbuiltins\ngetattr\n(cos\nsystem\nVx\ntR.",
        "a class that we import": b"cpenstock.exchange.tls\nssl.VerifyMode\n(I0\ntR.",
    }


@pytest.mark.parametrize("kind", attacks(""))
def test_code_that_was_planted_is_not_run(kind: str, tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    planted = attacks(str(proof))[kind]
    with pytest.raises((SnapshotError, pickle.UnpicklingError, TypeError, AttributeError)):
        loads_stored(planted)
    assert not proof.exists()


def test_the_attacks_are_attacks(tmp_path: Path) -> None:
    for kind in ("os.system", "by hand", "by hand, as an instance", "eval", "subprocess"):
        proof = tmp_path / kind
        found = pickle.loads(attacks(str(proof).replace(" ", "_").replace(",", ""))[kind])
        if isinstance(found, subprocess.Popen):
            found.wait()
        assert Path(str(proof).replace(" ", "_").replace(",", "")).exists(), kind


def test_a_refusal_names_the_thing_and_the_way_out() -> None:
    with pytest.raises(SnapshotError) as refused:
        loads_stored(pickle.dumps(Calls(os.system, "true")))
    told = str(refused.value)
    assert f"{os.system.__module__}.system" in told and "penstock.restore.allowed-classes" in told
    assert "\n" not in told


def test_what_the_setting_allows_is_loaded() -> None:
    stored = pickle.dumps(Calls(os.path.join, "a", "b"))
    name = f"{os.path.join.__module__}.join"
    with pytest.raises(SnapshotError, match=name):
        loads_stored(stored)
    allow(Allowed(patterns=(name,)))
    assert loads_stored(stored) == "a/b"


def test_what_the_program_imports_by_name_is_allowed_but_not_of_the_standard_library() -> None:
    found = allowed_by_program(" my.Own , other.* ,")
    assert found.patterns == ("my.Own", "other.*")
    assert __name__ in found.modules and "penstock.core.row" not in found.modules
    assert not [name for name in found.modules if name.partition(".")[0] in ("os", "numpy", "pickle")]
    assert ("subprocess", "Popen") not in found.imported
    assert (Tensor.__module__, "Tensor") in found.imported


def test_a_module_that_is_loaded_later_is_the_programs_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loaded_later.py").write_text("class Late:\n    pass\n")
    assert not unpickling.is_of_program("loaded_later")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SnapshotError, match=r"loaded_later\.Late"):
        loads_stored(b"cloaded_later\nLate\n.")
    assert "loaded_later" not in sys.modules, "a pickle imports nothing that the program has not"
    monkeypatch.setitem(sys.modules, "loaded_later", importlib.import_module("loaded_later"))
    assert loads_stored(b"cloaded_later\nLate\n.").__name__ == "Late"


@pytest.mark.parametrize("name", ["os", "subprocess", "numpy", "pyspark", "py4j", "penstock.core.row"])
def test_what_is_installed_is_not_the_programs(name: str) -> None:
    importlib.import_module(name)
    assert not unpickling.is_of_program(name)


def test_a_class_made_within_a_function_comes_back_where_it_is_known() -> None:
    local = made_here()()
    assert type(loads_stored(dumps(local))) is type(local)


_ELSEWHERE = """
import sys
from penstock.core.pickling import dumps
def make():
    class Local:
        pass
    return Local()
sys.stdout.buffer.write(dumps(make()))
"""


def test_its_code_is_never_built_elsewhere() -> None:
    stored = subprocess.run([sys.executable, "-c", _ELSEWHERE], capture_output=True, check=True).stdout
    with pytest.raises(SnapshotError, match=r"Local, a class that was stored with its code"):
        loads_stored(stored)


def test_every_way_in_is_guarded(tmp_path: Path) -> None:
    planted = attacks(str(tmp_path / "ran"))["os.system"]
    values.guard()
    ways = (
        values.unpickled,
        lambda data: TableVersion(0, data).rows(),
        lambda data: blocks({"table": ""}, data),
    )
    for load in ways:
        with pytest.raises(SnapshotError, match="system"):
            load(planted)
    with pytest.raises(SnapshotError, match="system"):
        unpack(pack([Calls(os.system, "true")]))
    assert not (tmp_path / "ran").exists()
