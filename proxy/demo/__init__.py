"""The demo: an upstream on loopback that plays every API, and some calls to it.

:mod:`proxy.demo.upstream` serves, :mod:`proxy.demo.script` decides what it answers, and the players
of :mod:`codec.apis` give the answers the form of their API. :mod:`proxy.demo.calls` has the calls
of ``spantap demo``: chats (:mod:`proxy.demo.chats`), and each other API once.

Doors: ``calls``, ``clients``, ``surroundings``, ``upstream``.
"""
