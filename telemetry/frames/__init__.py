"""Frames: what a worker reports to telemetry about an exchange, and how the report gets there.

A frame (:mod:`telemetry.frames.frame`) is a fact of the wire. A worker keeps the frames of an
exchange in its outbox (:class:`telemetry.frames.outbox.FrameOutbox`) until the span is stored. It
sends them as records (:mod:`telemetry.frames.records`) over a socket, or writes them to the spool
(:mod:`telemetry.frames.spool`).

Doors: ``blocks``, ``ending``, ``frame``, ``kept``, ``outbox``, ``records``, ``shedding``,
``spool``.
"""
