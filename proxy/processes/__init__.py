"""The processes of ``spantap serve``: a supervisor, its workers, and the one that observes.

::

    supervisor     binds the ports, starts the others, serves the admin port; no traffic
    worker (1..n)  relays; sends frames
    telemetry      observes, stores, exports

``python -m proxy.processes.supervisor`` comes first. It starts :mod:`proxy.processes.worker` and
:mod:`proxy.processes.telemetry` by exec, and each imports only what it needs. A child has a control
channel to the supervisor (:mod:`proxy.processes.messages`); when the channel ends, the child knows
that the supervisor is gone.
Workers send frames to telemetry over a Unix socket. The supervisor keeps its listening end, so the
socket outlives any telemetry process (``docs/contract/promises.md#processes``).

Doors: ``async_control``, ``control``, ``intercept_orders``, ``launch_channel``, ``messages``,
``open_calls``, ``page_listener``, ``page_port``, ``scratch``, ``store_orders``.
"""
