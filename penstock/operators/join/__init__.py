"""Two streams together: interval, window and temporal joins, co-groups, and tables beside a stream.

All meet on the key: input 0 is the left stream, input 1 the right one.
"""
