"""Launches by ``spantap run``: commands whose calls go through a proxy, with nothing configured.

:mod:`proxy.launches.variables` and :mod:`proxy.launches.tools` say what sends a command's calls to
a proxy, :mod:`proxy.launches.joining` finds or starts that proxy, and
:mod:`proxy.launches.command` is the command itself: its start, its signals, its end.
"""
