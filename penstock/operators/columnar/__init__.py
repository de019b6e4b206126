"""Vectorised windowed aggregates over named columns.

Read in this order: :mod:`panes` (time cut into slices), :mod:`aggregates` (what users ask for),
:mod:`expressions` (what they are computed of), :mod:`plan` (partial columns, merging, finishing),
:mod:`fold` (raw columns to partials, before the exchange) and :mod:`window_agg` (the windows).
"""
