"""The subcommands of ``spantap``, a module or a folder each, and what they share.

:mod:`proxy.__main__` parses the arguments, and imports the module of the command. Its function
``run_…`` takes the options and returns the exit status; only ``run_serve`` does not return, because
it becomes another program.

``spantap serve`` becomes a supervisor (:mod:`proxy.processes`), ``run`` and ``env`` use
:mod:`proxy.launches`, ``demo`` and ``upstream`` use :mod:`proxy.demo`. ``check``, ``serve``
and ``store`` are folders.

A list of calls (:mod:`~proxy.commands.listing`) is made of the store's columns: rows of
:mod:`~proxy.commands.table`, or lines of JSON of :mod:`~proxy.reading.record`. A single call
(:mod:`~proxy.commands.show`) is read from its span (:mod:`~proxy.reading.call`), never from a body:
no command knows an API. It becomes a page of :mod:`~proxy.commands.render`, its bodies, or a line
of JSON. Long output goes through the pager of :mod:`~proxy.commands.console`.

Doors: ``ca``, ``check``, ``command_parser``, ``demo``, ``env``, ``healthcheck``, ``help``,
``page``, ``run``, ``serve``, ``show``, ``stats``, ``store``, ``traces``, ``upstream``.
"""
