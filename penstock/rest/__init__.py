"""The driver's HTTP control plane: Flink's REST, the page, metrics, and the doors they stand behind.

Read ``look.py`` first: a request looks at the job once, and every answer is a pure function of that look.
``app.py`` has the routes, ``server.py`` the thread and the sockets.  Design note 030.
"""
