r"""Dialects: how each provider writes an answer, as data, and a player of them.

OpenAI's way is the rule, and a :mod:`profile <codec.dialects.profile>` lists a provider's
departures from it. The profiles are in four modules, by the kind of provider: OpenAI and its
resellers, makers, hosts, engines. A player takes the chunks of a
:class:`codec.generator.ChunkGenerator` with running counts, gives each the dialect's shape, and
writes it as bytes.

:data:`DIALECTS` has all by name, :func:`find_dialect` finds one. :func:`play_stream` plays a
streamed answer, :func:`play_body` a plain one, :func:`play_error` an error; :class:`StreamPlayer`
does what :func:`play_stream` does, chunk by chunk.

Doors: ``DIALECTS``, ``find_dialect``, ``play_stream``, ``play_body``, ``play_error``,
``StreamPlayer``, and the types of a profile, such as ``Dialect``.

>>> from codec.generator import Answer, ChunkGenerator, Delta, Identity, UsagePolicy
>>> identity = Identity(id="gen-1", created=1, model="m")
>>> generator = ChunkGenerator(identity, usage=UsagePolicy.CONTINUOUS)
>>> chunks = generator.generate([Answer(deltas=(Delta(content="Hi"),))])
>>> events = list(play_stream(find_dialect("openrouter"), chunks))
>>> events[0].startswith(b": OPENROUTER PROCESSING\n\n"), events[-1]
(True, b'data: [DONE]\n\n')
"""

from __future__ import annotations

from codec.dialects.catalogue import DIALECTS, find_dialect
from codec.dialects.player import StreamPlayer, play_body, play_error, play_stream
from codec.dialects.profile import (
    CallIndex,
    CallShape,
    Dialect,
    ErrorForm,
    ErrorShape,
    Extras,
    Framing,
    NullUsage,
    ReasoningShape,
    Rejection,
    RolePlace,
    UsagePlace,
    UsageShape,
)

__all__ = (
    "DIALECTS",
    "CallIndex",
    "CallShape",
    "Dialect",
    "ErrorForm",
    "ErrorShape",
    "Extras",
    "Framing",
    "NullUsage",
    "ReasoningShape",
    "Rejection",
    "RolePlace",
    "StreamPlayer",
    "UsagePlace",
    "UsageShape",
    "find_dialect",
    "play_body",
    "play_error",
    "play_stream",
)
