"""Reading calls: what the terminal, the page and the commands of the store ask of recorded calls.

:mod:`telemetry.reading.sqlite` is the engine that reads the store of one proxy.

Doors: ``sqlite``.
"""
