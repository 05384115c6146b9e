"""Runs: a command whose calls go through a proxy, with nothing configured.

:mod:`proxy.runs.variables` and :mod:`proxy.runs.tools` say what sends a command's calls to a proxy,
:mod:`proxy.runs.joining` finds or starts that proxy, and :mod:`proxy.runs.command` is the command
itself: its start, its signals, its end.
"""
