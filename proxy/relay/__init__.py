"""Relay: a request goes up, its answer comes down, and a copy of both goes to telemetry.

:class:`proxy.relay.handler.Handler` is the door: it finds the upstream, admits clients, and
relays. Calls that are observed are exchanges (:mod:`proxy.relay.exchange`), whose frames leave by
the tap (:mod:`proxy.relay.tap`).
"""
