"""Log lines, bounded in length and number, without content and without credentials.

Each process calls :func:`proxy.logging.logs.set_up_logging` once.

Doors: ``logs``.
"""
