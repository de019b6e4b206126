"""How a running job is laid out anew, at another parallelism.

Compiled from the same nodes as at the start of the job, so chains may be made and broken.  Steps with a
parallelism of their own keep it.  Key groups stay as they are: keyed state cannot be cut differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.core.ids import OperatorId
from penstock.graph.nodes import Node
from penstock.graph.plan import Plan, PlanOptions, Vertex, compile_plan, pickled_plan
from penstock.snapshot.state_assignment import resolve_max_parallelism


@dataclass(frozen=True, slots=True)
class Layout:
    """A job at one parallelism."""

    plan: Plan
    plan_bytes: bytes = field(repr=False)
    """The plan as slots get it."""


@dataclass(frozen=True, slots=True)
class Planner:
    """Lays a job out."""

    nodes: Sequence[Node]
    options: PlanOptions

    def layout(self, parallelism: int, running: Plan) -> Layout:
        """The job at this parallelism, to go on from a checkpoint of ``running``; raises if it cannot."""
        if parallelism < 1:
            raise ConfigError(
                f"a parallelism of {parallelism} will not do: it is a whole number from 1", code=Code.RESCALE
            )
        limit, step = parallelism_limit(running) or (parallelism, "")
        if parallelism > limit:
            raise ConfigError(
                f"job {running.job_name!r} cannot have parallelism {parallelism}: the maximum of step "
                f"{step!r} is {limit}, and keyed state cannot be cut into more parts than when it began. "
                f"Rescale it to {limit} at most",
                code=Code.RESCALE,
            )
        options = replace(self.options, parallelism=parallelism)
        plan = compile_plan(list(self.nodes), running.job_name, options, running.settings)
        plan = _with_key_groups_of(running, plan)
        return Layout(plan, pickled_plan(plan))


def check_rescale(layout: Layout, running: Plan, most_slots: int | None) -> None:
    """Refuse what cannot be had, or makes no difference."""
    wanted, plan = layout.plan.parallelism, running.parallelism
    if wanted == plan:
        raise ConfigError(f"job {running.job_name!r} has parallelism {wanted} already", code=Code.RESCALE)
    if not running.settings.checkpointing:
        raise ConfigError(
            f"job {running.job_name!r} takes no checkpoints, so it cannot be rescaled while it runs: set "
            f"execution.checkpointing.interval; or stop it with a savepoint and start its program with "
            f"-p {wanted} and -s",
            code=Code.RESCALE,
        )
    if most_slots is not None:
        check_room(layout, running, most_slots)


def check_room(layout: Layout, running: Plan, most_slots: int) -> None:
    """Refuse a layout that takes more slots than there are, with the step that needs them."""
    wanted, slots = layout.plan.parallelism, layout.plan.slots
    if slots <= most_slots:
        return
    problem = f"job {running.job_name!r} cannot have {slots} slots: Spark has room for {most_slots}."
    if slots > wanted:
        step = next(vertex.name for vertex in layout.plan.vertices if vertex.parallelism == slots)
        raise ConfigError(
            f"{problem} Step {step!r} has a parallelism of its own, {slots}: lower it", code=Code.RESCALE
        )
    raise ConfigError(
        f"{problem} Rescale it to {max(most_slots, 1)} at most; or, to give Spark more cores, stop "
        f"it with a savepoint and start its program with -p {wanted} and -s",
        code=Code.RESCALE,
    )


def parallelism_limit(plan: Plan) -> tuple[int, str] | None:
    """The highest parallelism that the running job can go on with, and the step that it is for.

    Steps with a parallelism of their own keep it.  The default of those without keys grows with it; that of
    keyed state was fixed when the state was first written.
    """
    fixed = plan.settings.max_parallelism_set
    limits: list[tuple[int, str]] = []
    for vertex, planned in plan.operators():
        node = planned.node
        limit = vertex.max_parallelism if node.keyed or fixed else node.max_parallelism
        if limit is not None and node.parallelism is None:
            limits.append((limit, node.name))
    return min(limits, default=None)


def _with_key_groups_of(running: Plan, plan: Plan) -> Plan:
    had = {planned.operator_id: vertex.max_parallelism for vertex, planned in running.operators()}
    return replace(plan, vertices=tuple(_with_key_groups(vertex, had) for vertex in plan.vertices))


def _with_key_groups(vertex: Vertex, had: dict[OperatorId, int]) -> Vertex:
    keyed = [planned for planned in vertex.operators if planned.node.keyed]
    stored = had[keyed[0].operator_id] if keyed else None
    resolved = resolve_max_parallelism(
        vertex.name,
        stored=stored,
        planned=vertex.max_parallelism,
        explicit=False,
        parallelism=vertex.parallelism,
    )
    return replace(vertex, max_parallelism=resolved)
