"""The store: an SQLite file that holds every span from its commit until it was sent, and after.

One process owns a store and writes it (:class:`telemetry.store.store.Store`); others may read it
meanwhile (:mod:`telemetry.reading`,
:func:`telemetry.store.survey.survey_store`). After damage, a full disk or a kill the other spans
stay, and the log says how many are lost.

Doors: ``calls``, ``checksum``, ``deletion``, ``description``, ``lock``, ``minutes``,
``opened_files``, ``opening``, ``parts``, ``pictures``, ``raw_answers``, ``retention``, ``rows``,
``spans_table``, ``store``, ``summaries``, ``survey``, ``tally``, ``unobserved_calls``,
``unobserved_keeper``, ``wanted_text``.
"""
