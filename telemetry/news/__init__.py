"""Live news: what happens right now, for who watches; nothing is made while nobody does.

The thread that feeds the service makes the news (:mod:`~telemetry.news.news`), and puts them into a
feed for each watcher (:mod:`~telemetry.news.feed`), which never makes it wait. How feeds get to the
watchers is not known here. :mod:`~telemetry.news.messages` is what a watcher reads.
"""
