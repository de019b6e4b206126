"""Keyed state in the memory of the slot: one dictionary for each state."""
