"""How to reach the page: its address, and the token that it asks for.

The supervisor and the commands need both without the page's server (:mod:`proxy.page`).
:mod:`~proxy.page_access.token_file` keeps a store's token, :mod:`~proxy.page_access.digests` makes
digests, signatures and tickets from it, and :mod:`~proxy.page_access.address` says where a store's
page is.

Doors: ``address``, ``digests``, ``token_file``.
"""
