"""From PyFlink to Penstock: what ``penstock port`` does to a program, without running it.

``program.py`` reads one program and says what to change and what has no equivalent, ``equivalents.py``
knows what there is because it looks into the real modules, and what to do about the rest, ``files.py``
finds, reads and writes files and looks into notebooks.  Only text moves: nothing
of the program is imported or run.
"""
