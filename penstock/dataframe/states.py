"""Names for the state of a DataFrame's steps, which stay while the program around them changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from copy import copy
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from penstock.dataframe.frame import DataFrame
from penstock.datastream import DataStream
from penstock.datastream import StreamExecutionEnvironment as Env
from penstock.operators.columnar.calc import CalcOperator


def uid_of(kind: str, made: str) -> str:
    """The uid of a step: what it is, and a digest of how it was made."""
    return f"{kind}-{hashlib.blake2b(made.encode(), digest_size=8).hexdigest()}"


def name_states(frame: DataFrame, kind: str, made: str) -> DataFrame:
    """Let the steps with state that ``frame`` adds to its inputs be found by ``made`` in savepoints.

    Steps that have a uid when the frame is built keep it: name inputs first.  Two frames made alike in one
    job are told apart by their filters and columns, so that neither takes the other's state when one of them
    goes or they change places; those that are the same throughout are numbered.  The frame itself is changed,
    and given back.
    """
    frame._build = _naming(frame._build, kind, made)
    retracting: Callable[[], DataFrame] | None = getattr(frame, "_retracting", None)
    if retracting is not None:
        # The same results with old rows among them come of steps of their own.
        vars(frame)["_retracting"] = lambda: name_states(retracting(), kind, made)
    return frame


def renamed(stream: DataStream[Any], kind: str, before: str, made: str) -> None:
    """Let the step that a stream comes from be found by ``made``, if it was to be found by ``before``."""
    env, number = stream.get_execution_environment(), stream._links[0].source
    node = env.graph.get(number)
    if node.description == before and (node.uid or "").startswith(uid_of(kind, before)):
        env.graph.change(number, uid=None)
        _name(env, number, uid_of(kind, made), made)


def named_apart(frame: DataFrame, kind: str, made: str) -> DataFrame:
    """The same frame with names for its state, while the one that was given stays as it is."""
    found = copy(frame)
    found._build = frame._in
    found._made = WeakKeyDictionary()
    return name_states(found, kind, made)


def _naming(
    build: Callable[[Env], DataStream[Any]], kind: str, made: str
) -> Callable[[Env], DataStream[Any]]:
    def named(env: Env) -> DataStream[Any]:
        before = env.graph.declared
        stream = build(env)
        uid = uid_of(kind, made)
        for number in range(before + 1, env.graph.declared + 1):
            _name(env, number, uid, made)
        return stream

    return named


def _name(env: Env, number: Any, uid: str, made: str) -> None:
    node = env.graph.get(number)
    if not node.stateful or node.uid is not None:
        return
    alike = [it for it in map(env.graph.get, _numbers(env)) if it.uid and it.uid.startswith(uid)]
    env.graph.change(node.id, uid=uid if not alike else _apart(env, node, uid), description=made)
    for it in alike:
        if it.uid == uid:
            env.graph.change(it.id, uid=_apart(env, it, uid))


def _numbers(env: Env) -> Iterable[Any]:
    return range(env.graph.begin, env.graph.declared + 1)


def _apart(env: Env, node: Any, uid: str) -> str:
    digest = hashlib.blake2b(_written(env, node).encode(), digest_size=4).hexdigest()
    known, at, chosen = env.graph.uids(), 1, f"{uid}-{digest}"
    while chosen in known:
        at += 1
        chosen = f"{uid}-{digest}-{at}"
    return chosen


def _written(env: Env, node: Any) -> str:
    """What a step and those before it compute, in words: their names, filters and columns."""
    parts = [node.name]
    if isinstance(node.factory, partial) and node.factory.func is CalcOperator:
        _, condition, named = node.factory.args
        columns = {} if named is None else {name: str(made) for name, made in named.items()}
        parts += [str(condition), str(columns)]
    return f"{parts}({', '.join(_written(env, env.graph.get(link.source)) for link in node.links)})"
