"""Typed expressions over Arrow columns, compiled once and computed batch by batch.

Read :mod:`.nodes` (what an expression is), :mod:`.functions` (what a function says of itself), then
:mod:`.program` (how an expression becomes calls of pyarrow).  :mod:`.face` is what users write.
"""
