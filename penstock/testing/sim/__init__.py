"""A whole job in one thread, in virtual time, with faults: see :mod:`penstock.testing.sim.simulation`.

Read ``run.py`` and ``life.py`` first (jobs, and their drivers that come and go), then ``driver.py``,
``cluster.py`` and ``slot.py`` (the real runner and slots, stepped by the scheduler), ``faults.py`` (what goes
wrong), ``audit.py`` and ``limits.py`` (what must hold).
"""
