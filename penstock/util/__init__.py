"""PyFlink's ``util``, as far as programs use it."""
