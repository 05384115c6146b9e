"""The demo: an upstream on loopback that plays every API, and a handful of calls to it.

:mod:`proxy.demo.upstream` serves, :mod:`proxy.demo.script` says what is answered; the players of
:mod:`codec.apis` give that the form of their API. :mod:`proxy.demo.calls` is what ``spantap demo``
calls: chats (:mod:`proxy.demo.chats`), and each other API once.
"""
