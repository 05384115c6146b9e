"""Finding calls: one filter language for the terminal, the page and replay.

:func:`telemetry.finding.filter.parse_filter` reads a filter. A
:class:`~telemetry.finding.filter.Filter` gives a condition in SQL on the columns of ``spans``, the
same condition on one summary, and the texts to look for in the bytes of spans
(:mod:`telemetry.reading.sqlite.searching`). :mod:`telemetry.finding.keys` is the table of what can
be asked. Nothing here reads a store, a clock or the environment.

Doors: ``filter``, ``keys``, ``orders``, ``words``.
"""
