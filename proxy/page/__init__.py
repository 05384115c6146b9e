"""The page: what the store has and what is under way, for a browser and for scripts.

A process of its own serves it. It reads the store read-only, and no byte of traffic passes.

Doors
    :class:`~proxy.page.reads.Reads` reads the store on threads; :mod:`proxy.page.api` makes JSON
    of what is asked.
"""
