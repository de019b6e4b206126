"""The meeting point of engine and user code: binding, opening, closing, and blaming the right record.

Users pass either a function object (``MapFunction`` and the like) or a plain callable.  :func:`bind`
makes one callable of both, so hot loops never ask which it was.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Any

from penstock.core.errors import ConfigError
from penstock.operators.functions import Function
from penstock.operators.operator import Operator, OperatorContext
from penstock.operators.runtime_context import NO_KEY, RuntimeContext

_NOTHING: Any = object()


def bind(user: Any, kind: type[Function], method: str) -> Callable[..., Any]:
    """``user``'s method if it is a ``kind``, else ``user`` itself if it can be called."""
    if isinstance(user, type) and issubclass(user, Function):
        raise ConfigError(
            f"{user.__name__} is a class where an instance is needed; write {user.__name__}() with brackets"
        )
    found: Callable[..., Any] | None = getattr(user, method) if isinstance(user, kind) else user
    if iscoroutinefunction(found) or isasyncgenfunction(found):
        raise ConfigError(
            f"{getattr(found, '__qualname__', method)} is an 'async def', which nothing awaits here: write "
            "it with 'def', or ask other systems with an AsyncFunction (AsyncDataStream.unordered_wait)"
        )
    if callable(found):
        return found
    raise ConfigError(
        f"expected a {kind.__name__} or a callable, got {type(user).__name__}; give a subclass of "
        f"{kind.__name__} with a method {method!r}, or a lambda"
    )


def require(user: Any, kind: type[Function]) -> None:
    """Refuse anything that is not a ``kind``: for functions that cannot be written as a lambda."""
    if not isinstance(user, kind):
        if isinstance(user, type):
            raise ConfigError(
                f"expected an instance of {kind.__name__}, got {user.__name__} (the class; add brackets)"
            )
        is_keyed = any(base.__name__ == f"Keyed{kind.__name__}" for base in type(user).__mro__)
        way_out = ": it has the state of one key, so call key_by() on the stream before" if is_keyed else ""
        raise ConfigError(f"expected an instance of {kind.__name__}, got {user!r:.80}{way_out}")


class FunctionOperator(Operator):
    """An operator around one user function.

    Subclasses call :meth:`blame` when user code raised, so that the error can show the record.
    ``keyed`` says whether the function may use keyed state.
    """

    def __init__(self, user: Any, keyed: bool) -> None:
        self._user = user
        self._keyed = keyed
        self._opened = False
        self._record = _NOTHING

    def open(self, ctx: OperatorContext) -> None:
        super().open(ctx)
        ctx.keyed.scope.key = NO_KEY
        if isinstance(self._user, Function):
            self._opened = True
            self._user.open(RuntimeContext(ctx, self._keyed))

    def close(self) -> None:
        if self._opened:
            self._opened = False
            self._user.close()

    def blame(self, record: Any) -> None:
        """Remember the record that user code failed on."""
        self._record = record

    def current_record(self) -> Any:
        if self._record is _NOTHING:
            raise LookupError
        return self._record
