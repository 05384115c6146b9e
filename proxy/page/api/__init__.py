"""The API of the page: JSON of what the store has, a module for each resource.

A resource is a function of a reader and of parsed parameters; none of them knows of HTTP. What is
hidden in spans is hidden here: nothing else is read.

:data:`~proxy.page.api.routes.ROUTES` lists the paths, each with the function that answers it.

Doors: ``routes``.
"""
