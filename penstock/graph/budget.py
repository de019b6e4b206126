"""How much a channel may hold, so that all channels of a slot together stay within its budget.

What is in flight on a channel lies at its sender or at its receiver.  So a slot has to do with the channels
that lead into it and with those that leave it; each gets an equal share of the budget of whichever of its
two slots has more of them.  A channel may always have one element on its way: the bound is looked at before
something is sent, not after, so no share is too small to go on with.
"""

from __future__ import annotations

from penstock.core.sizing import SEGMENT_BYTES
from penstock.exchange.partition import channel_targets, reaches_all
from penstock.graph.plan import Plan


class NetworkBudget:
    """The budget of every slot of a plan, dealt out to its channels."""

    def __init__(self, plan: Plan) -> None:
        self._budget = plan.settings.network_bytes
        self._most = plan.settings.channel_bytes
        self.channels = _channels_of_slots(plan)
        """How many channels each slot has to do with."""

    def limit(self, sender: int, receiver: int) -> int:
        """The bound of a channel between two slots, in bytes."""
        share = self._budget // max(self.channels[sender], self.channels[receiver], 1)
        return max(1, min(self._most, max(share, SEGMENT_BYTES)))

    def __str__(self) -> str:
        busiest = max(range(len(self.channels)), key=self.channels.__getitem__)
        count, limit = self.channels[busiest], self.limit(busiest, busiest)
        whole = count * limit >> 20
        return f"up to {count} channels a slot, each of {limit >> 10} kB: {whole} MB in flight at most"


def _channels_of_slots(plan: Plan) -> list[int]:
    counts = [0] * plan.slots
    for edge in plan.edges:
        senders = plan.vertex(edge.source).parallelism
        receivers = plan.vertex(edge.target).parallelism
        if reaches_all(edge.partitioning):
            for receiver in range(receivers):
                counts[receiver] += senders
            for sender in range(senders):
                counts[sender] += receivers - (sender < receivers)
            continue
        for sender in range(senders):
            for receiver in channel_targets(edge.partitioning, sender, senders, receivers):
                counts[receiver] += 1
                counts[sender] += sender != receiver
    return counts
