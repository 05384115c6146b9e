"""Upstream: which one a path belongs to, and the connections to it.

:class:`proxy.upstream.client.UpstreamClient` sends a request and returns a
:class:`proxy.upstream.response.UpstreamResponse`, which has the answer's head and reads its body.
:func:`proxy.upstream.errors.explain_upstream_error` puts failures into words.

Doors: ``catalogue``, ``client``, ``client_certificate``, ``errors``, ``forward_proxy``, ``owners``,
``passes``, ``request``, ``response``, ``routes``.
"""
