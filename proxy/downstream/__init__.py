"""Downstream: the traffic port, its connections, and one request at a time of each.

:class:`proxy.downstream.server.DownstreamServer` accepts, limits and drains; over TLS it is
reached through a :class:`~proxy.downstream.tls_port.TlsPort`. Each client has a
:class:`~proxy.downstream.connection.DownstreamConnection`, which parses its requests and has one
after the other answered. A handler gets a :class:`~proxy.downstream.downstream.Downstream`: a
request as it came, and the way to answer it byte for byte.

Doors: ``downstream``, ``inbound_keys``, ``listening``, ``port_state``, ``server``, ``tls_port``.
"""
