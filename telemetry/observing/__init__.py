"""Observing: frames in, one :class:`~telemetry.observing.exchange.Exchange` out.

:class:`telemetry.observing.source.FrameSource` gets the frames of one worker. The observer decodes
the bodies within a budget, judges how the exchange ended, and masks credentials. It never raises.

Doors: ``agent_ids``, ``call_ordering``, ``client_context``, ``client_headers``,
``content_decoding``, ``crash_counter``, ``encryption``, ``exchange``, ``exchange_metrics``,
``heads``, ``observation``, ``observer``, ``open_bodies``, ``open_call``, ``purposes``,
``raw_answer``, ``source``, ``spool_reader``.
"""
