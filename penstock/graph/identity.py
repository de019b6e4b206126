"""Stable identity of operators: how a snapshot finds its way back to changed code.

With a ``uid`` the identity is a hash of it and survives any rearrangement.  Without one it is a hash of
the node's kind, its position and its inputs' identities, so inserting or removing steps breaks it;
:func:`missing_uids` names such steps for a warning.
"""

from __future__ import annotations

import hashlib

from penstock.core.error_codes import Code
from penstock.core.errors import GraphError
from penstock.core.ids import OperatorId
from penstock.graph.nodes import Node, NodeId


def operator_ids(nodes: list[Node]) -> dict[NodeId, OperatorId]:
    """The identity of each node. Two nodes with one ``uid`` are an error."""
    ids: dict[NodeId, OperatorId] = {}
    used: dict[OperatorId, Node] = {}
    for position, node in enumerate(nodes):
        if node.uid_hash is not None:
            identity = OperatorId(node.uid_hash)
        elif node.uid is not None:
            identity = of_uid(node.uid)
        else:
            inputs = ",".join(ids[link.source] for link in node.links if link.source in ids)
            identity = _digest(f"auto:{position}:{node.kind.name}:{len(node.links)}:{inputs}")
        if identity in used:
            raise GraphError(
                f"steps {used[identity].name!r} and {node.name!r} have the same uid "
                f"{node.uid or node.uid_hash!r}; uids must be unique within a job",
                code=Code.UID_TWICE,
            )
        used[identity] = node
        ids[node.id] = identity
    return ids


def of_uid(uid: str) -> OperatorId:
    """The identity of an operator with this ``uid``, in whatever program."""
    return _digest(f"uid:{uid}")


def missing_uids(nodes: list[Node]) -> list[str]:
    """Names of stateful steps without a ``uid``."""
    return [node.name for node in nodes if node.stateful and node.uid is None and node.uid_hash is None]


def _digest(text: str) -> OperatorId:
    return OperatorId(hashlib.blake2b(text.encode(), digest_size=16).hexdigest())
