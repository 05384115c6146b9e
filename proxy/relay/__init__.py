"""Relay: a request goes up, its answer comes down, and a copy of both goes to telemetry.

:class:`proxy.relay.handler.Handler` is the entry: it finds the upstream, admits clients, and
relays. An observed call is an exchange (:mod:`proxy.relay.exchange`); the tap
(:mod:`proxy.relay.tap`) sends its frames.

Doors: ``exchange``, ``handler``, ``landing``, ``open_exchanges``, ``rejections``, ``tap``,
``unobserved``.
"""
