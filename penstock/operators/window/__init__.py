"""Windows over streams of Python objects: what they are, when they fire, and the operator.

Read ``windows`` (the namespaces), ``assigners`` / ``sessions`` / ``counting`` (which windows an
element belongs to), ``triggers`` / ``continuous`` / ``composite`` (when a window fires), ``evictors`` (what
it drops), then ``operator`` (the general course of an element and of a timer), ``fixed_windows`` (the same
for the common case, without asking assigner and trigger).  Other shorter ways: ``asked_once`` (triggers that
fire by timers only), ``counted`` (count windows), ``session_path`` (sessions), ``pane_sharing`` (aggregates
of overlapping windows) and ``column_windows`` (records that stay the columns they came in).
``window_state`` holds what a window has gathered, ``function_adapters`` calls the user's function on it,
``merging`` joins sessions.
"""
