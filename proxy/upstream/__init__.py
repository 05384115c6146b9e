"""Upstream: which one a path belongs to, and the connections to it.

:class:`proxy.upstream.client.UpstreamClient` sends a request; the answer's head and its reads come
as :class:`proxy.upstream.response.UpstreamResponse`. What fails is put into words by
:func:`proxy.upstream.errors.explain_upstream_error`.

Doors: ``catalogue``, ``client``, ``forward_proxy``, ``owners``, ``passes``, ``request``,
``response``, ``routes``.
"""
