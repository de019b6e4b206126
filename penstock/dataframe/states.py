"""Names for the state of a DataFrame's steps, which stay while the program around them changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from copy import copy
from typing import Any
from weakref import WeakKeyDictionary

from penstock.dataframe.frame import DataFrame
from penstock.datastream import DataStream
from penstock.datastream import StreamExecutionEnvironment as Env


def uid_of(kind: str, made: str) -> str:
    """The uid of a step: what it is, and a digest of how it was made."""
    return f"{kind}-{hashlib.blake2b(made.encode(), digest_size=8).hexdigest()}"


def name_states(frame: DataFrame, kind: str, made: str) -> DataFrame:
    """Let the steps with state that ``frame`` adds to its inputs be found by ``made`` in savepoints.

    Steps that have a uid when the frame is built keep it: name inputs first.  Two frames made alike in one
    job are numbered, in the order in which they are built.  The frame itself is changed, and given back.
    """
    frame._build = _naming(frame._build, kind, made)
    retracting: Callable[[], DataFrame] | None = getattr(frame, "_retracting", None)
    if retracting is not None:
        # The same results with old rows among them come of steps of their own.
        vars(frame)["_retracting"] = lambda: name_states(retracting(), kind, made)
    return frame


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
    known, at, chosen = env.graph.uids(), 1, uid
    while chosen in known:
        at += 1
        chosen = f"{uid}-{at}"
    env.graph.change(node.id, uid=chosen, description=made)
