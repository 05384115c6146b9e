"""Launches by ``spantap run``: commands whose calls go through a proxy, without configuration.

:mod:`proxy.launches.resolving` finds which program a command starts.
:mod:`proxy.launches.variables`, :mod:`~proxy.launches.programs` and :mod:`~proxy.launches.tools`
know what sends its calls to a proxy by base URLs, :mod:`proxy.launches.intercepting` and
:mod:`~proxy.launches.trust` what sends them by interception. :mod:`proxy.launches.joining` finds or
starts that proxy, and :mod:`proxy.launches.command` runs the command: its start, its signals, its
end.

Doors: ``bases``, ``command``, ``environment``, ``intercepting``, ``joining``, ``programs``,
``resolving``, ``tools``, ``trust``, ``variables``.
"""
