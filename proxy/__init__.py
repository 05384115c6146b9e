"""Sockets, processes, signals and clocks: the relay, the settings and the command line."""
