"""``import penstock``: what it gives, what it loads, and under which names its classes travel."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pydoc
import subprocess
import sys
from collections.abc import Iterator

import cloudpickle
import pytest

import penstock
from penstock.core.elsewhere import front_of
from penstock.core.known_types import is_plain_data
from penstock.core.unpickling import loads_stored
from penstock.datastream import KeyedProcessFunction, TimeWindow
from penstock.operators.window.windows import TimeWindow as Written
from tests.unit.test_public_names import NAMES

PUBLIC = tuple(name for name in NAMES if name != "penstock")

OF_THE_ENGINE = {
    "ConfigOption", "Duration", "Instant", "JobID", "JobStatus", "RowKind", "Time",
    "CountWindow", "GlobalWindow", "TimeDomain", "TimeWindow", "TriggerResult",
    "AfterMatchSkipStrategy", "Pattern", "SkipError", "WithinType",
}  # fmt: skip
"""Plain data of the packages that most programs import from; snapshots know it by these names."""


def in_a_new_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def classes(modules: tuple[str, ...]) -> Iterator[tuple[str, str, type]]:
    for module in modules:
        found = importlib.import_module(module)
        for name in found.__all__:
            if inspect.isclass(kind := getattr(found, name)) and kind.__module__.startswith("penstock."):
                yield module, name, kind


def test_importing_it_loads_nothing() -> None:
    loaded = "import penstock, penstock.datastream, penstock.common, sys"
    code = f"{loaded}; print('pyarrow' in sys.modules, *dir(penstock))"
    assert in_a_new_process(code).split() == ["False", *sorted(NAMES["penstock"])]


def test_its_parts_are_there_without_further_imports() -> None:
    code = "import penstock; print(*[getattr(penstock, name).__name__ for name in penstock.__all__[1:]])"
    assert in_a_new_process(code).split() == [f"penstock.{name}" for name in penstock.__all__[1:]]


def test_a_module_below_a_package_is_its_attribute() -> None:
    code = "import penstock; print(penstock.datastream.window.TumblingEventTimeWindows.__name__)"
    assert in_a_new_process(code).strip() == "TumblingEventTimeWindows"


@pytest.mark.parametrize("package", ["penstock", "penstock.datastream", "penstock.common", "penstock.cep"])
def test_what_is_not_there_is_said_so(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = importlib.import_module(package).nothing


def test_a_module_that_lacks_another_is_not_taken_for_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "penstock.connectors.builtin.socket", None)
    monkeypatch.delitem(sys.modules, "penstock.datastream.connectors.socket", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"penstock\.connectors\.builtin\.socket"):
        front_of("penstock.datastream.connectors", [], "")("socket")


def test_help_teaches_to_write_a_keyed_function() -> None:
    taught = pydoc.plain(pydoc.render_doc(penstock.datastream.KeyedProcessFunction))
    assert "KeyedProcessFunction in module penstock.datastream.functions" in taught
    for word in ("open(self", "process_element(self", "on_timer(self", "close(self", "thread", "yield"):
        assert word in taught
    for word in (">>> class", "get_state", "register_event_time_timer", "ValueStateDescriptor"):
        assert word in taught


# --- under which names they travel ----------------------------------------------------------------


def test_public_classes_say_where_users_find_them() -> None:
    main = tuple(f"penstock.{name}" for name in ("common", "datastream", "columns", "cep"))
    elsewhere = {name for _, name, kind in classes(main) if not kind.__module__.startswith(PUBLIC)}
    assert elsewhere == OF_THE_ENGINE
    assert all(is_plain_data(kind) for _, name, kind in classes(main) if name in OF_THE_ENGINE)


def test_every_public_class_is_found_by_its_name() -> None:
    found = list(classes(PUBLIC))
    assert len(found) > 400
    for _, _, kind in found:
        assert pickle.loads(pickle.dumps(kind)) is kind
        assert cloudpickle.loads(cloudpickle.dumps(kind)) is kind


def test_the_place_where_it_is_written_still_has_it() -> None:
    """Programs that were pickled, and snapshots that were written, under the old name."""
    for name in (b"penstock.operators.functions", b"penstock.datastream.functions"):
        assert pickle.loads(b"c" + name + b"\nKeyedProcessFunction\n.") is KeyedProcessFunction


def test_data_is_stored_under_the_name_that_snapshots_know() -> None:
    stored = pickle.dumps(TimeWindow(0, 5), protocol=5)
    assert b"penstock.operators.window.windows" in stored and TimeWindow is Written
    assert loads_stored(stored) == TimeWindow(0, 5)


def test_a_slot_that_gets_a_function_does_not_load_the_streams() -> None:
    class Count(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield value

    shipped = cloudpickle.dumps(Count())
    assert b"penstock.datastream.functions" in shipped
    code = f"""
import pickle, sys
found = pickle.loads({shipped!r})
print(type(found).__mro__[1].__name__, "penstock.datastream._stream" in sys.modules)
"""
    assert in_a_new_process(code).split() == ["KeyedProcessFunction", "False"]
