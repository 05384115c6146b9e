"""Settings: variables, the file and the command line, read and checked in one place.

Commands call :func:`proxy.settings.settings.load_settings`. A worker and the telemetry process get
what they need as small structs (:mod:`proxy.settings.worker`, :mod:`proxy.settings.spans`), without
the library that checks them. No other room imports settings: :mod:`proxy.configure` gives each room
the values that it needs.

Doors: ``settings``, ``shown``, ``spans``, ``store_path``, ``variable_names``, ``worker``.
"""
