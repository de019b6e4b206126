"""A job that survives crashes, watched: what ``penstock demo`` runs.

``hourly_counts.py`` is the program, ``clicks.py`` its input; ``drive.py`` runs it and
kills workers, ``modes.py`` says what each guarantee changes, ``verdict.py`` compares what was committed
with the truth, ``chart.py`` draws it.
"""
