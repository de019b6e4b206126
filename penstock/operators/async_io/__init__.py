"""Calls to other systems that take a while: many under way at once, results in or out of order.

Read :mod:`operator` first; :mod:`queues` decides what may be emitted when, :mod:`runners` where the
user's coroutines run.
"""
