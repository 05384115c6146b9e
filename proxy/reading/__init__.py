"""Recorded calls, read back from the store: for the terminal, for programs and for the page.

Nothing here prints, and nothing knows an API: what a span says is in its attributes.

:func:`~proxy.reading.chosen_calls.read_filter` and :func:`~proxy.reading.chosen_calls.choose`
select calls; :func:`~proxy.reading.call.decode_call` reads one from its span;
:mod:`~proxy.reading.record` and :mod:`~proxy.reading.run_record` make JSON of calls and runs, and
:mod:`~proxy.reading.sum_members` of sums;
:mod:`~proxy.reading.costs` says what amounts mean, and why one is unknown, and
:mod:`~proxy.reading.link_words` by what a call is known to continue another;
:mod:`~proxy.reading.growth` says what is new in a call that continues another one,
:mod:`~proxy.reading.call_place` where a call stands, and :mod:`~proxy.reading.tool_results` which
tool a result is of;
:mod:`~proxy.reading.raw_stream` shows the true bytes of an answer as they came;
:func:`~proxy.reading.run_tree.build_tree` puts the rows of a run in their order, and
:func:`~proxy.reading.branch_sums.sum_branches` sums its branches up;
:mod:`~proxy.reading.turns` has the turns of a conversation, and :mod:`~proxy.reading.spent_time`
says where time went.

Doors: ``branch_sums``, ``call``, ``call_order``, ``call_place``, ``chosen_calls``, ``costs``,
``failures``, ``flat_messages``, ``growth``, ``link_words``, ``local_zone``, ``message_digests``,
``pictures``, ``raw_stream``, ``record``, ``run_record``, ``run_tree``, ``spent_time``,
``sum_members``, ``tool_results``, ``turns``.
"""
