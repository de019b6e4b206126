"""Stored pickles with arrays of numpy and Arrow, which believe what a pickle says about memory.

A type of numpy whose pickle says that bytes are objects makes pointers of them, and so does an array that is
made of bytes; with those, whoever wrote the pickle reads and writes this process's memory.  So here no state
of a type is given to numpy: types are made anew by its constructor, which checks them.  An array is filled
once, and nothing is ever called by the name of ``ndarray``.  What a stored pickle may name is up to
:mod:`penstock.core.unpickling`; this is Python's own unpickler in Python, with a say in what is built.
Arrays of Arrow are made only of as many buffers as their type has, and looked through before they are used.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable
from enum import Enum
from types import FunctionType
from typing import Any

import numpy as np
import pyarrow as pa

_SPEC = re.compile(r"[a-zA-Z][0-9]*", re.ASCII)
_ORDERS = ("<", ">", "|", "=")
_ALIGNED = 0x80
_FIXED = (type, FunctionType, Enum, np.dtype)
"""What is there already, for all: nothing of it is changed."""
_ARRAY = object()
"""Stands for ``ndarray`` where a pickle says what is to be made."""


_NUMBER = re.compile(
    rb"\x80[\x04\x05]\x95.{8}\x8c.numpy\._?core\.multiarray\x94\x8c\x06scalar\x94\x93\x94"
    rb"\x8c\x05numpy\x94\x8c\x05dtype\x94\x93\x94\x8c[\x02\x03]([bifuc][0-9]{1,2})\x94\x89\x88\x87\x94R\x94"
    rb"\(K\x03\x8c\x01([<>|])\x94NNNJ\xff{4}J\xff{4}K\x00t\x94bC.(.{1,16})\x94\x86\x94R\x94\.",
    re.DOTALL,
)
"""All of a pickle that holds one number, as Python writes it: state may be full of them, read one by one."""


class Unsound(ValueError):
    """A pickle that says something of memory which is not so."""


class _Dtype:
    """A type of numpy, until its state is known."""

    def __init__(self, spec: Any, *_: Any) -> None:
        if not isinstance(spec, str) or not _SPEC.fullmatch(spec):
            raise Unsound(f"there is no type {spec!r}")
        self.spec = spec


def _made(spec: str, state: Any) -> np.dtype[Any]:
    """A type of numpy by its state, which must be the one that numpy itself would give it."""
    _, order, sub, names, fields, size, _, flags, *more = state
    if names is not None:
        found = [fields[name] for name in names]
        told: Any = {"names": list(names), "itemsize": size, "aligned": bool(flags & _ALIGNED)}
        for place, part in enumerate(("formats", "offsets", "titles")):
            told[part] = [(*each, None)[place] for each in found]
    elif sub is not None:
        told = (sub[0], sub[1])
    elif order in _ORDERS:
        told = f"{order}{spec}{_unit(spec, more)}"
    else:
        raise Unsound(f"there is no order of bytes {order!r}")
    made: np.dtype[Any] = np.dtype(told)
    if made.flags != flags or size not in (-1, made.itemsize):
        raise Unsound(f"{made} is not what its pickle says")
    return made


def _unit(spec: str, more: list[Any]) -> str:
    if spec[0] not in "mM" or not more:
        return ""
    name, number, *_ = more[0][1]
    return "" if name == b"generic" else f"[{int(number)}{name.decode('ascii')}]"


def _empty(kind: Any, *_: Any) -> Any:
    if kind is not _ARRAY:
        raise Unsound("a pickle makes an array of something that is none")
    return np.ndarray((0,), "b")


def _empty_masked(*_: Any) -> Any:
    made: Any = np.ma
    return made.core._mareconstruct(np.ma.MaskedArray, np.ndarray, (0,), "b")


def _scalar(kind: Any, *data: Any) -> Any:
    return _CORE.multiarray.scalar(_real(kind), *data)


def _from_buffer(data: Any, kind: Any, *more: Any) -> Any:
    return _CORE.numeric._frombuffer(data, _real(kind), *more)


def _real(kind: Any) -> np.dtype[Any]:
    if not isinstance(kind, np.dtype):
        raise Unsound("a pickle uses a type before it says which")
    return kind


_CORE: Any = getattr(np, "_core", None) or np.core
_INSTEAD: dict[str, Any] = {
    "dtype": _Dtype,
    "ndarray": _ARRAY,
    "_reconstruct": _empty,
    "scalar": _scalar,
    "_frombuffer": _from_buffer,
    "_mareconstruct": _empty_masked,
    "MaskedArray": _ARRAY,
}
"""For the names of numpy that a snapshot may hold."""


def load(data: Any, resolved: Callable[[str, str], Any]) -> Any:
    """The object; :class:`Unsound` if numpy would not have written it.

    ``resolved`` is what a name means that is none of numpy's.
    """
    found = _NUMBER.fullmatch(data)
    if found is not None:
        kind = np.dtype((found[2] + found[1]).decode("ascii"))
        if kind.itemsize == len(found[3]):
            return np.frombuffer(found[3], kind)[0]
    return _Careful(data, resolved).load()


_InPython: Any = pickle._Unpickler


class _Careful(_InPython):  # type: ignore[misc]
    dispatch = _InPython.dispatch.copy()

    def __init__(self, data: Any, resolved: Callable[[str, str], Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._resolved = resolved

    def find_class(self, module: str, name: str) -> Any:
        found = self._resolved(module, name)
        return _INSTEAD.get(name, found) if module.partition(".")[0] == "numpy" else found

    def load_build(self) -> None:
        """As the base does it, but for what could make something of memory, or change what is there."""
        built = self.stack[-2]
        if isinstance(built, _Dtype):
            self._put_in_place(built, _made(built.spec, self.stack.pop()))
            return
        if isinstance(built, _FIXED):
            raise Unsound(f"a pickle changes {built!r}")
        if isinstance(built, np.ndarray) and built.size:
            raise Unsound("a pickle fills an array twice")
        super().load_build()

    dispatch[pickle.BUILD[0]] = load_build

    def _put_in_place(self, before: _Dtype, made: np.dtype[Any]) -> None:
        self.stack[-1] = made
        for number, known in self.memo.items():
            if known is before:
                self.memo[number] = made


def arrow_array(data: Any) -> Any:
    """In place of what pickles of Arrow's arrays call."""
    _check_parts(data)
    array = pa.lib._restore_array(data)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise Unsound(str(error)) from None
    return array


def _check_parts(data: Any) -> None:
    kind, length, nulls, offset, buffers, children, dictionary = data
    sound = isinstance(kind, pa.DataType) and all(type(each) is int for each in (length, nulls, offset))
    if not sound or min(length, offset) < 0 or nulls < -1:
        raise Unsound("an array has no type or no length")
    if len(buffers) != kind.num_buffers or len(children) != kind.num_fields:
        raise Unsound(f"an array of {kind} has not the parts that it needs")
    if (dictionary is not None) is not pa.types.is_dictionary(kind):
        raise Unsound(f"an array of {kind} has a dictionary, or has none")
    for child in (*children, *([] if dictionary is None else [dictionary])):
        _check_parts(child)
