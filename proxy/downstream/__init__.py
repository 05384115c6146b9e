"""Downstream: the traffic port, its connections, and one request at a time of each.

:class:`proxy.downstream.server.DownstreamServer` accepts, limits and drains. Behind
it each client has a :class:`~proxy.downstream.connection.DownstreamConnection`, which parses its
requests with llhttp and serves one after the other. A handler gets a
:class:`~proxy.downstream.downstream.Downstream`: a request as it came, and the way to answer it
byte for byte. :class:`~proxy.downstream.tls_port.TlsPort` is the same port with TLS.
"""
