"""Commands: the subcommands of ``spantap``, a module each, and what they share.

:mod:`proxy.__main__` parses the arguments, and imports the module of the command that is run.

Doors
    ``run_…`` of :mod:`~proxy.commands.serve`, :mod:`~proxy.commands.run`,
    :mod:`~proxy.commands.env`, :mod:`~proxy.commands.traces`, :mod:`~proxy.commands.check`,
    :mod:`~proxy.commands.demo`, :mod:`~proxy.commands.upstream` and
    :mod:`~proxy.commands.healthcheck`: each takes what was parsed, and returns the exit status, but
    for the first, which becomes another program.

Inside
    ``spantap serve`` becomes a supervisor (:mod:`proxy.processes`), ``run`` and ``env`` ask
    :mod:`proxy.launches`, ``demo`` and ``upstream`` play :mod:`proxy.demo`.

    The modules that begin with ``check_`` are parts of ``spantap check``, each with findings
    (:mod:`~proxy.commands.check_findings`).

    A list of calls, found by their texts or under way among them (:mod:`~proxy.commands.listing`),
    is made of the store's columns: rows of :mod:`~proxy.commands.table`, or lines of JSON of
    :mod:`~proxy.reading.record`. A call that is shown (:mod:`~proxy.commands.show`) is read from
    its span (:mod:`~proxy.reading.call`), never from a body: no command knows an API. It becomes a
    page of :mod:`~proxy.commands.render`, its bodies, or a line of JSON. What is long goes through
    the pager of :mod:`~proxy.commands.console`.
"""
