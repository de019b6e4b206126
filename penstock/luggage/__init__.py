"""What a program needs in the slots beside its functions: modules, archives, packages, an interpreter.

``wishes`` is what was asked for, ``found`` what the program imported.  ``staging`` lays modules out on the
driver, ``archives`` packs them, ``arrival`` puts them on a worker's path.  ``outfit`` is the rest, which has
to be there before a worker's Python starts: unpacked archives, installed requirements.  Everything is named
by what it contains, so nothing old is taken for new.

All of it also runs where nothing else of Penstock can be imported yet: it needs the standard
library and ``core`` modules that do not need more.
"""
