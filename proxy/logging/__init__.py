"""Logging: one line for each thing worth knowing, bounded in length and number.

:func:`proxy.logging.logs.set_up_logging` is the door. Neither content nor a credential gets into a
line.
"""
