"""The program as declared (frozen nodes) and the plan compiled from it."""
