"""The API of the page: JSON of what the store has, a module for each resource.

A resource is a function that takes a reader and parsed parameters, and knows nothing of HTTP. What
is hidden in spans is hidden here too, because nothing else is read.

:data:`~proxy.page.api.routes.ROUTES` lists the paths, each with the function that answers it.

Doors: ``routes``.
"""
