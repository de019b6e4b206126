"""Expressions made of others by putting one part in place of another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as changed

from penstock.expressions.aggregates import AggregateCall
from penstock.expressions.nodes import Call, Case, Cast, Node, PythonCall


def rewritten(node: Node, replace: Callable[[Node], Node | None]) -> Node:
    """The node with every part replaced for which there is a replacement, from the top down."""
    new = replace(node)
    if new is not None:
        return new
    if isinstance(node, Call | PythonCall):
        return changed(node, arguments=tuple(rewritten(it, replace) for it in node.arguments))
    if isinstance(node, Cast | AggregateCall):
        return changed(node, argument=rewritten(node.argument, replace))
    if isinstance(node, Case):
        branches = tuple((rewritten(a, replace), rewritten(b, replace)) for a, b in node.branches)
        return Case(branches, rewritten(node.otherwise, replace))
    return node
