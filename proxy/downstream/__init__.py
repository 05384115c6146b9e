"""Downstream: the traffic port, its connections, and one request at a time of each.

:class:`proxy.downstream.server.DownstreamServer` accepts, limits and drains. A handler gets a
:class:`~proxy.downstream.downstream.Downstream`: a request as it came, and the way to answer it
byte for byte.
"""
