"""Stores spans of a conversation in parts, so that repeated content is stored once.

A family is up to 256 spans of a conversation. Each span has a row in the table ``parts``, with the
bytes that no earlier span had, in pieces. Instead of its bytes the span has a recipe, which names
the pieces that it is made of. ``spans.part`` is the number of its part. It is ``NULL`` if the bytes
are stored whole, as they are for short calls and for calls that continue no other call.

All modules here and the readers of the store rely on these rules:

1. The number of a part is the number of its family, times 256, plus the number of the part in the
   family. The number of a family is that of its first span (``seq``), so none is given twice.
2. A piece keeps its place, a part and a number in it, as long as a recipe names it. Its bytes are
   removed in the transaction that removes the last such span. Its size is 0 from then on: no other
   piece gets that place (:mod:`telemetry.store.parts.sweeping`).
3. Everything that a recipe names was written before it or with it, in one transaction, and is there
   (:mod:`telemetry.store.parts.families`).
4. The joined pieces are a span only if they have its checksum (:mod:`telemetry.store.checksum`). A
   damaged part costs all spans that it is in.
5. A process that does not own the store reads a recipe and its parts in one snapshot.

Doors: ``families``, ``part_reader``, ``piece_search``, ``recipe``, ``sweeping``.
"""
