"""Launches by ``spantap run``: commands whose calls go through a proxy, without configuration.

:mod:`proxy.launches.variables` and :mod:`proxy.launches.tools` know what sends a command's calls to
a proxy, :mod:`proxy.launches.joining` finds or starts that proxy, and
:mod:`proxy.launches.command` runs the command: its start, its signals, its end.

Doors: ``bases``, ``command``, ``environment``, ``joining``, ``tools``.
"""
