"""Files, wherever they are: one contract, ``contract.Storage``, and who keeps it.

``local`` are the operating system's files, ``remote`` is whatever fsspec reaches, ``memory`` a dictionary;
``places`` says which of them a path belongs to.  How each of them creates a file only if its name is free is
decided in ``exclusive``, for snapshots, manifests and everything else.  What the engine keeps on a local disk
is for its owner only: ``own_files``, and on top of it ``work_place``.  ``at_once`` does the same for many
files side by side.
"""
