"""Finding calls: one filter language for the terminal, the page and replay.

:func:`telemetry.finding.filter.parse_filter` reads a filter. A
:class:`~telemetry.finding.filter.Filter` says which rows it asks for, as values
(:mod:`telemetry.finding.where`), and whether one summary fits. :mod:`telemetry.finding.keys` is the
table of what can be asked. Nothing here reads a store, a clock or the environment, or knows SQL.

Doors: ``filter``, ``keys``, ``words``, ``where``; and for modules that write a filter in another
    form ``predicates``, ``patterns``, ``quantities``.
"""
