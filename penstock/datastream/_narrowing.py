"""What a job reads: sources that can leave out other columns and rows do, and nothing computes them.

Looked at from the end of the program: a projection says which columns it reads, a filter passes on what is
behind it, and every other step reads all.  So state never depends on what is read of its results.  Rows are
left out where a filter follows at once and nobody else reads the source, unless it gives event time, which
goes on with all rows.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from penstock.event_time.watermark_generators import BoundedOutOfOrderness, LearnedLateness, NoWatermarks
from penstock.event_time.watermark_strategy import WatermarkStrategy
from penstock.graph.nodes import Node, NodeId
from penstock.operators.columnar.bounds import bounds_of
from penstock.operators.columnar.calc import CalcOperator
from penstock.operators.columnar.reads import Calc, Names, narrowed_calc
from penstock.operators.source_operator import SourceOperator
from penstock.operators.timestamps import AssignTimestampsOperator


def narrowed(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes of a job, given in topological order, without what nobody reads."""
    wanted: dict[NodeId, Names] = {}
    found: list[Node] = []
    filters = _filters(nodes)
    for node in reversed(nodes):
        given, read = _narrow(node, wanted.get(node.id))
        found.append(given if node.id not in filters else _filtered(given, filters[node.id]))
        for link in node.links:
            whole = link.tag is not None or link.partitioning is not None
            wanted[link.source] = _both(wanted.get(link.source, frozenset()), None if whole else read)
    return tuple(reversed(found))


def _filters(nodes: Sequence[Node]) -> dict[NodeId, Calc]:
    """The filters of nodes that are read once, by a filter."""
    readers = Counter(link.source for node in nodes for link in node.links)
    found: dict[NodeId, Calc] = {}
    for node in nodes:
        factory = node.factory
        if isinstance(factory, partial) and factory.func is CalcOperator and not factory.keywords:
            alone = [link.source for link in node.links if readers[link.source] == 1 and link.tag is None]
            found |= dict.fromkeys(alone, factory.args)
    return found


def _filtered(node: Node, calc: Calc) -> Node:
    """A source that may leave out rows for which the condition behind it is not true."""
    factory, (schema, condition, _) = node.factory, calc
    if not isinstance(factory, partial) or factory.func is not SourceOperator or condition is None:
        return node
    source, strategy = factory.args
    bounds = list(bounds_of(condition, schema))
    if not bounds or strategy.makes_watermarks or strategy.extractor is not None:
        return node
    chosen = source.within(bounds)
    return dataclasses.replace(node, source=chosen, factory=partial(SourceOperator, chosen, strategy))


def _both(one: Names, other: Names) -> Names:
    return None if one is None or other is None else one | other


def _narrow(node: Node, wanted: Names) -> tuple[Node, Names]:
    """The node that gives what is wanted, and what it reads for that."""
    factory = node.factory
    if not isinstance(factory, partial) or factory.keywords:
        return node, None
    if factory.func is CalcOperator:
        calc, read = narrowed_calc(factory.args, wanted)
        return dataclasses.replace(node, factory=partial(CalcOperator, *calc)), read
    if factory.func is SourceOperator:
        return _reading(node, wanted, *factory.args), None
    if factory.func is AssignTimestampsOperator:
        return node, _both(wanted, _timed(*factory.args))
    return node, None


def _reading(node: Node, wanted: Names, source: Any, strategy: WatermarkStrategy) -> Node:
    read = _both(wanted, _timed(strategy))
    if not read:
        return node
    chosen = source.narrowed(read)
    return dataclasses.replace(node, source=chosen, factory=partial(SourceOperator, chosen, strategy))


def _timed(strategy: WatermarkStrategy) -> Names:
    """What a strategy reads of a record; an assigner or a generator of the program may read anything."""
    generator = strategy.create_generator
    made = generator.func if isinstance(generator, partial) else generator
    extractor = strategy.extractor
    if made not in (BoundedOutOfOrderness, LearnedLateness, NoWatermarks):
        return None
    if extractor is None:
        return frozenset()
    return frozenset({extractor.column}) if extractor.column is not None else None
