"""Classes of the script: found by name in a slot, in the next run, and in what older versions wrote."""

from __future__ import annotations

import base64
import enum
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.core.pickling import dumps, loads
from penstock.core.stand_ins import StandIn, loads_anywhere
from penstock.state_processor.values import json_text

SCRIPT = """
import enum, sys, base64, pickle, cloudpickle
from dataclasses import dataclass
from typing import NamedTuple
from penstock.core.pickling import ship, loads, dumps

@dataclass(frozen=True)
class Order:
    number: int

class Colour(enum.Enum):
    RED = "red"

class Pair(NamedTuple):
    left: int

class Outer:
    class Inner:
        pass

class Unpicklable:
    generator = (n for n in ())

def made():
    return Order(1), Colour.RED, Pair(2), Outer.Inner()

def show(data):
    print(base64.b64encode(data).decode())

"""
SLOT = """
import sys, base64, pickle
make = pickle.loads(base64.b64decode(sys.stdin.read()))
from penstock.core.pickling import dumps
data = dumps(make())
assert b"_make_skeleton" not in data, data
print(base64.b64encode(data).decode())
"""


def run(path: Path, program: str, given: bytes = b"") -> bytes:
    path.write_text(program)
    sent = base64.b64encode(given).decode()
    done = subprocess.run([sys.executable, path], input=sent, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return base64.b64decode(done.stdout.strip())


def test_objects_made_in_a_slot_are_of_the_scripts_classes_in_the_next_run(tmp_path: Path) -> None:
    shipped = run(tmp_path / "script.py", SCRIPT + "show(ship(made))")
    stored = run(tmp_path / "slot.py", SLOT, shipped)
    check = """
order, colour, pair, inner = loads(base64.b64decode(sys.stdin.read()))
assert order == Order(1) and type(order) is Order and hash(order) == hash(Order(1))
assert colour is Colour.RED and type(pair) is Pair and type(inner) is Outer.Inner
show(b"fine")
"""
    assert run(tmp_path / "script.py", SCRIPT + check, stored) == b"fine"


def test_what_was_stored_with_its_class_is_of_the_class_that_the_script_has_now(tmp_path: Path) -> None:
    stored = run(tmp_path / "older.py", SCRIPT + "show(cloudpickle.dumps((made()[:2], [made()])))")
    assert b"_make_skeleton" in stored
    check = """
(order, colour), _ = loads(base64.b64decode(sys.stdin.read()))
assert order == Order(1) and type(order) is Order and colour is Colour.RED
assert Order(3).number == 3 and list(Colour) == [Colour.RED]
show(b"fine")
"""
    assert run(tmp_path / "script.py", SCRIPT + check, stored) == b"fine"


def test_a_class_that_the_script_no_longer_has(tmp_path: Path) -> None:
    with_class = run(tmp_path / "older.py", SCRIPT + "show(cloudpickle.dumps(Order(1)))")
    assert loads(with_class).number == 1
    by_name = run(tmp_path / "script.py", SCRIPT + "show(dumps(Order(1)))")
    with pytest.raises(AttributeError, match="Order"):
        loads(by_name)


def test_tools_without_the_program_show_what_is_there(tmp_path: Path) -> None:
    stored = run(tmp_path / "script.py", SCRIPT + "show(dumps([*made()[:3], Order(1)]))")
    order, colour, pair, again = loads_anywhere(stored)
    assert isinstance(order, StandIn) and order == again and len({order, again}) == 1
    assert (
        repr(order) == "Order(number=1)" and repr(colour) == "Colour(f0='red')" and repr(pair) == "Pair(f0=2)"
    )
    assert json_text(order) == '{"number": 1}' and json_text(pair) == "[2]"


def test_objects_of_classes_without_a_name_still_travel() -> None:
    @dataclass
    class Local:
        x: int

    class Kind(enum.Enum):
        A = 1

    found: Any = loads(dumps([Local(1), Kind.A]))
    assert found == [Local(1), Kind.A]
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(Local(1))


DRIVERS_OWN = """
import types
only_here = types.ModuleType("only_here")
only_here.Form = type("Form", (), {"__module__": "only_here"})
sys.modules["only_here"] = only_here

class Screen(only_here.Form):
    pass

class Plugin:
    def __init_subclass__(cls, *, kind):
        cls.kind = kind

class Registered(Plugin, kind="driver"):
    pass

"""


def test_classes_that_only_the_driver_can_make_do_not_stop_the_program(tmp_path: Path) -> None:
    """One with a base that executors lack, or that cannot be made anew, ended every slot at its start."""
    shipped = run(tmp_path / "script.py", SCRIPT + DRIVERS_OWN + "show(ship(made))")
    run(tmp_path / "slot.py", SLOT, shipped)


def test_classes_that_the_program_does_not_name_are_found_as_well(tmp_path: Path) -> None:
    slot = """
import sys, base64, pickle
pickle.loads(base64.b64decode(sys.stdin.read()))
from penstock.core.pickling import dumps
print(base64.b64encode(dumps((Order(1), Colour.RED, Pair(2), Outer.Inner()))).decode())
"""
    shipped = run(tmp_path / "script.py", SCRIPT + DRIVERS_OWN + "show(ship(len))")
    check = """
order, colour, pair, inner = loads(base64.b64decode(sys.stdin.read()))
assert type(order) is Order and colour is Colour.RED and type(pair) is Pair and type(inner) is Outer.Inner
show(b"fine")
"""
    stored = run(tmp_path / "slot.py", slot, shipped)
    assert run(tmp_path / "script.py", SCRIPT + check, stored) == b"fine"


def test_what_the_programs_functions_and_classes_share_stays_one(tmp_path: Path) -> None:
    script = """
import base64
from penstock.core.pickling import ship

MISSING = object()

class Order:
    def price(self):
        return MISSING

class Basket:
    orders = [Order]

def same(missing=MISSING):
    return Order().price() is missing

print(base64.b64encode(ship(same)).decode())
"""
    slot = """
import sys, base64, pickle
assert pickle.loads(base64.b64decode(sys.stdin.read()))()
assert Basket.orders == [Order]
print(base64.b64encode(b"fine").decode())
"""
    assert run(tmp_path / "slot.py", slot, run(tmp_path / "script.py", script)) == b"fine"


def test_a_class_that_holds_very_much_is_left_behind_unread(tmp_path: Path) -> None:
    """It was pickled as a whole only to see that it is too large."""
    script = """
import base64
from penstock.core.pickling import ship

class Item:
    count = 0
    def __reduce__(self):
        Item.count += 1
        return Item, (), {"text": "x" * 1000 + str(Item.count)}

class Large:
    items = [Item() for _ in range(20_000)]

data = ship(len)
assert len(data) < 100_000 and Item.count < 10_000, (len(data), Item.count)
print(base64.b64encode(b"fine").decode())
"""
    assert run(tmp_path / "script.py", script) == b"fine"


def test_a_class_made_in_a_function_is_not_taken_for_one_of_the_same_name(tmp_path: Path) -> None:
    script = (
        SCRIPT
        + """
def other():
    class Order:
        def __init__(self):
            self.text = "other"
    return Order

"""
    )
    stored = run(tmp_path / "script.py", script + "show(dumps(other()()))")
    check = """
again = loads(base64.b64decode(sys.stdin.read()))
assert type(again) is not Order and again.text == "other"
assert loads(dumps(again)).text == "other"
show(b"fine")
"""
    assert run(tmp_path / "script.py", script + check, stored) == b"fine"
