"""The store: an SQLite file that holds every span from its commit until it has gone out, and after.

One process owns a store and writes it (:class:`telemetry.store.store.Store`); whoever wants to look
reads it beside that (:class:`telemetry.store.reader.StoreReader`,
:func:`telemetry.store.survey.survey_store`). What damage, a full disk and a kill leave is told with
numbers, and the rest of the spans stays.
"""
