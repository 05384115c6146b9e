"""Interception: a CONNECT listener that opens the TLS of model hosts.

:class:`proxy.interception.port.InterceptPort` listens on loopback and asks each connection for a
secret. A connection to a host of :class:`proxy.interception.interception.Interception` gets TLS
with a certificate of its authority, and is served like one of the traffic port. All other
connections are tunnelled, and nothing of them is known but host and bytes
(``docs/contract/promises.md#interception``).

A port of ``spantap run`` is for one command and has an authority for that run. The port of
``spantap serve`` is for programs that somebody else starts; its authority is kept beside the store
(:mod:`proxy.interception.kept_authority`).

Doors: ``authority``, ``hosts``, ``interception``, ``kept_authority``, ``port``.
"""
