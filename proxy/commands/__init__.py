"""What the subcommands do, a module each; their arguments are parsed in :mod:`proxy.__main__`.

The modules that begin with ``check`` are parts of ``spantap check``. What ``spantap traces`` shows
of a call is read from its span (:mod:`proxy.commands.call`), never from a body: no command knows an
API.
"""
