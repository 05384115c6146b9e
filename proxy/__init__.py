"""Sockets, processes, signals and clocks: the relay, the settings and the command line.

People start with :mod:`proxy.__main__`, code with :class:`proxy.app.Proxy`: settings in, a relaying
proxy out. The path of a request is :mod:`proxy.downstream`, :mod:`proxy.relay`,
:mod:`proxy.upstream`, and back.

Doors: none. No other package imports this one; people start here.
"""
