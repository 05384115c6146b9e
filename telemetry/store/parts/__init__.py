"""Spans of a conversation in parts, so that what they repeat is stored once.

A family is up to 256 spans of a conversation. Each of them has a row in the table ``parts``, with
the bytes that none before it had, in pieces; and in the place of its own bytes a recipe, which
tells of what pieces the span is made. ``spans.part`` is the number of its own part, ``NULL`` where
the bytes are stored whole: those of calls that are short, or that continue none.

Rules:

1. The number of a part is that of its family, times 256, and the part's own in the family. The
   number of a family is that of its first span (``seq``), so none is given twice.
2. A piece has its place, a part and a number in it, as long as a recipe names it. Then its bytes
   go, in the transaction that removes the last such span, and its size is 0 from then on: nothing
   else gets that place (:mod:`telemetry.store.parts.sweeping`).
3. What a recipe names was written before it or with it, in one transaction, and is there
   (:mod:`telemetry.store.parts.families`).
4. What is put together is a span only if it has the checksum of the span
   (:mod:`telemetry.store.checksum`). A part that is damaged costs the spans that it is in.
5. Who does not own the store reads a recipe and its parts in one snapshot.

Doors: ``families``, ``part_reader``, ``piece_search``, ``recipe``, ``sweeping``.
"""
