"""Operators on columns whose results change: groups without windows, first and last rows, top rows, joins.

They take rows that are added and rows that are taken back (``core/changes.py``), and keep their state in
arrays, one store a subtask.  Read :mod:`~penstock.operators.changes.group_agg` first.
"""
