"""Live news: what happens right now, for those who watch; nothing is made while nobody does.

The thread that feeds the service makes the news (:mod:`~telemetry.news.reporter`), and puts them
into a feed for each watcher (:mod:`~telemetry.news.feed`), without ever waiting for it. How feeds
get to the watchers is not known here. A watcher reads :mod:`~telemetry.news.messages`.

Doors: ``feed``, ``messages``, ``reporter``.
"""
