"""Recording: from a call that has ended to the rows of the store.

:class:`telemetry.recording.call_rows.CallRows` is the door, with one method for each way that rows
come about: :meth:`~telemetry.recording.call_rows.CallRows.tell` for a call that has ended,
:meth:`~telemetry.recording.call_rows.CallRows.end_rested_runs` for runs to which nothing comes any
more.
"""
