"""Settings: variables, the file and the command line, read and checked in one place.

:func:`proxy.settings.settings.load_settings` is the door for commands. A worker and the telemetry
process get what they need as small structs (:mod:`proxy.settings.worker`,
:mod:`proxy.settings.spans`), without the library that checks. No room imports settings:
:mod:`proxy.configure` hands it what it takes.
"""
