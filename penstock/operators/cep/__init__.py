"""Patterns over the events of a key: what users describe, the automaton made of it, and the operator.

Read ``pattern`` for what can be said, ``automaton`` for what it means, ``matcher`` for one event's course,
``buffer`` for what is kept, ``operator`` for time and state.  Programs import ``penstock.cep``.
"""
