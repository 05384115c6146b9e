"""``spantap check``: probes what the settings name; a module for each subject yields findings.

Doors: `command` probes everything; `program` says what is known of a program; `settings` lists the
settings; `upstreams` also lists the catalogue of providers.
"""
