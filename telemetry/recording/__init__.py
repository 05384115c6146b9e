"""Recording: from a call that has ended to the rows of the store.

``CallRows.tell`` makes all rows of a call that has ended, ``CallRows.end_rested_runs`` those of
runs to which nothing comes any more. Doors: ``call_rows``.
"""
