"""The page: shows recorded calls, and open ones, in a browser.

It is a separate process (:mod:`~proxy.page.process`), which the supervisor starts when somebody
connects (:mod:`proxy.processes.page_port`), or ``spantap page`` (:mod:`proxy.commands.page`).
:func:`proxy.page.app.build_app` makes the application.

:mod:`~proxy.page.guard` checks each request, and sets the security headers of every answer;
:mod:`~proxy.page.token` checks the token, the cookie and tickets. :mod:`~proxy.page.assets` serves
``static/``, and :mod:`~proxy.page.joining` makes one script of its modules. :mod:`proxy.page.api`
answers with JSON from :mod:`~proxy.page.reads`, and :mod:`~proxy.page.live` streams live events.

Doors: ``page_settings``, ``serving``.
"""
