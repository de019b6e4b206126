"""Type variables of the public API. Where a program does not say, they stand for ``Any``.

``DataStream`` alone is a ``DataStream[Any]``, also to a strict type checker: programs without types stay
right.  Python has such defaults (PEP 696) from 3.13 on; type checkers know them in ``typing_extensions``,
which need not be installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["ACC", "IN", "IN1", "IN2", "KEY", "OUT", "K", "R", "S", "T", "T_co", "V"]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
    KEY = TypeVar("KEY", default=Any)
    ACC = TypeVar("ACC", default=Any)
    T_co = TypeVar("T_co", covariant=True, default=Any)
    IN = TypeVar("IN", contravariant=True, default=Any)
    IN1 = TypeVar("IN1", contravariant=True, default=Any)
    IN2 = TypeVar("IN2", contravariant=True, default=Any)
    OUT = TypeVar("OUT", covariant=True, default=Any)
    R = TypeVar("R")
    S = TypeVar("S")
else:
    from typing import TypeVar

    T = TypeVar("T")
    K = TypeVar("K")
    V = TypeVar("V")
    KEY = TypeVar("KEY")
    ACC = TypeVar("ACC")
    T_co = TypeVar("T_co", covariant=True)
    IN = TypeVar("IN", contravariant=True)
    IN1 = TypeVar("IN1", contravariant=True)
    IN2 = TypeVar("IN2", contravariant=True)
    OUT = TypeVar("OUT", covariant=True)
    R = TypeVar("R")
    S = TypeVar("S")
