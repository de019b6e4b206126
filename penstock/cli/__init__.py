"""The command line. ``main.py`` is the door; each command is a module, imported when it is used."""
