"""Code Assist: Gemini in an envelope, for programs with a Google login.

See ``docs/contract/apis.md#code-assist``. A request has its members beside ``request``, which is
Gemini's; an answer, and each chunk of a stream, has its own beside ``response``.

Doors: ``route``.
"""
