"""Objects whose classes are not here: tools that read snapshots have the state and not the program."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from penstock.core.known_types import found_under
from penstock.core.pickling import loads


class StandIn:
    """An object of a class that is not here: what it was made of, and its fields."""

    def __new__(cls, *args: Any, **kwargs: Any) -> StandIn:
        made = super().__new__(cls)
        made.__dict__["_made_of"] = (*args, *kwargs.values())
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        """Fields are named in a dict; those of slots are in a second one, or in a list in their order."""
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.__dict__.update(part)
            elif isinstance(part, list):
                self.__dict__["_made_of"] = tuple(part)

    def fields(self) -> dict[str, Any]:
        """Fields by name; those that have none are f0, f1, ..."""
        named = {name: value for name, value in self.__dict__.items() if name != "_made_of"}
        return named or {f"f{n}": value for n, value in enumerate(self.__dict__["_made_of"])}

    def append(self, item: Any) -> None:
        """An item of a class that is a list."""
        self.__dict__["_made_of"] += (item,)

    def extend(self, items: Any) -> None:
        """Items of a class that is a list."""
        self.__dict__["_made_of"] += tuple(items)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.__dict__["_made_of"] += ((key, value),)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.fields().items())
        return f"{type(self).__qualname__}({', '.join(shown)})"


_made: dict[tuple[str, str], type] = {}
_allowed: ContextVar[bool] = ContextVar("stand_ins", default=False)


@contextmanager
def stand_ins() -> Iterator[None]:
    """Within, values of state are read whether their classes are here or not."""
    token = _allowed.set(True)
    try:
        yield
    finally:
        _allowed.reset(token)


def are_allowed() -> bool:
    """Whether the caller is within :func:`stand_ins`."""
    return _allowed.get()


def loads_anywhere(data: Any) -> Any:
    """The object; parts of it whose classes are not here are :class:`StandIn`."""
    try:
        return loads(data)
    except (AttributeError, ImportError):
        return _Lenient(io.BytesIO(data)).load()


class _Lenient(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except (AttributeError, ImportError):
            if found_under("builtins", name) is not None:
                raise
            made = {"__module__": module, "__qualname__": name}
            return _made.setdefault((module, name), type(name.rpartition(".")[2], (StandIn,), made))
