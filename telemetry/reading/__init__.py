"""Reading calls: the one way in which the terminal, the page and the store commands read them.

:func:`~telemetry.reading.stored_calls.open_calls` opens a store. :class:`~.calls.Calls` says what
can be asked: pages, walks, sums, one call, a run, a conversation. It asks an engine
(:mod:`telemetry.reading.engine`), of which there is one: :mod:`telemetry.reading.sqlite` reads the
store that one proxy writes. A second engine is a second folder; ``tests/telemetry/reading`` has one
over a list, and compares the two.

Doors: ``stored_calls``, ``calls``, ``sums``, ``groups``, ``runs``, ``conversations``, ``limits``,
``engine``.
"""
