"""Downstream: the traffic port, its connections, and one request at a time of each.

:class:`proxy.downstream.server.DownstreamServer` accepts, limits and ends connections; TLS
connections reach it through a :class:`~proxy.downstream.tls_port.TlsPort`. Each client has a
:class:`~proxy.downstream.connection.DownstreamConnection`, which parses its requests and passes
them to a handler, one after the other. The handler gets a
:class:`~proxy.downstream.downstream.Downstream`: a request as it came, and the means to answer it
byte for byte.

Doors: ``connection``, ``downstream``, ``inbound_keys``, ``listening``, ``port_state``,
``request_faults``, ``server``, ``tls_port``.
"""
