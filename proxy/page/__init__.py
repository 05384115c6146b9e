"""The page: shows the recorded calls, and those under way, in a browser.

A process of its own (:mod:`~proxy.page.process`), which the supervisor starts when somebody
connects (:mod:`proxy.processes.page_port`), or ``spantap page`` (:mod:`proxy.commands.page`).

Doors
    :func:`proxy.page.app.build_app` makes the application; :mod:`~proxy.page.process` serves it.

Inside
    :mod:`~proxy.page.guard` lets in who may come, and puts the headers of safety on every answer;
    :mod:`~proxy.page.token` knows the token and the cookie. :mod:`~proxy.page.assets` serves
    ``static/``, whose modules :mod:`~proxy.page.joining` makes one script of;
    :mod:`proxy.page.api` answers with JSON out of :mod:`~proxy.page.reads`, and
    :mod:`~proxy.page.live` tells what happens now.
"""
