"""Operators: the contract, the chain that links them, and all built-in ones."""
