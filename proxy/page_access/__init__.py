"""How one comes to the page: its address, and the token that it asks for.

Apart from the page itself (:mod:`proxy.page`), for the supervisor tells both, and has no server of
pages.

Doors
    :mod:`~proxy.page_access.token_file` keeps a store's token; :mod:`~proxy.page_access.digests`
    are all that is made of it; :mod:`~proxy.page_access.address` tells where a store's page is.
"""
