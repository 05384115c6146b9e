"""Sockets, processes, signals and clocks: the relay, the settings and the command line.

:mod:`proxy.__main__` is the door for people, :class:`proxy.app.Proxy` the one for code: settings
in, a relaying proxy out. The path of a request is :mod:`proxy.downstream`, :mod:`proxy.relay`,
:mod:`proxy.upstream`, and back.
"""
