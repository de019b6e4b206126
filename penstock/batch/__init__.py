"""BATCH mode: the runtime of one vertex, the course of a job, and a runner in this process.

Whoever runs the vertices (Spark stages, or lists in this process) only moves rows; see ``wire``.
"""
