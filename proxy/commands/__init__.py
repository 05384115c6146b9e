"""What the subcommands do; their arguments are parsed in :mod:`proxy.__main__`."""
