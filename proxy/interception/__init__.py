"""Interception: a CONNECT listener that opens the TLS of model hosts for one command.

:class:`proxy.interception.port.InterceptPort` listens on loopback and asks each connection for a
secret. A connection to a host of :class:`proxy.interception.interception.Interception` gets TLS
with a certificate of the run's own authority, and is served like one of the traffic port. All other
connections are tunnelled, and nothing of them is known but host and bytes.

Doors: ``authority``, ``hosts``, ``interception``, ``port``.
"""
