"""Windows over streams of Python objects: what they are, when they fire, and the operator.

Read ``windows`` (the namespaces), ``assigners`` / ``sessions`` / ``counting`` (which windows an
element belongs to), ``triggers`` / ``continuous`` / ``delta`` / ``timeout`` / ``composite`` (when a window
fires), ``evictors`` (what it drops), then ``operator`` (the general course of an element and of a timer),
``fast`` (the same for the common case, without asking assigner and trigger) and ``shared`` (aggregates of
overlapping windows).  ``contents`` holds what a window has gathered, ``bodies`` calls the user's function on
it, ``merging`` joins sessions.
"""
