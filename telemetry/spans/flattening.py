"""Flattening: limits how much of a conversation becomes separate attributes.

Every message, tool and part is several attributes, and a request may hold a million of them. The
SDK would accept them all and throw out the oldest one by one; here they are not made at all. So the
work is bounded by limits, not by the length of the lists.

All lists of an exchange together become at most :data:`MAX_FLATTENED_ATTRIBUTES`, which leaves a
span room for its essentials. Lists that are flattened first get room first. An entry is flattened
whole or not at all, and after the first entry without room no other is tried. A cut list is noted
with its original length, and stays readable in ``input.value`` or ``output.value``
(``docs/contract/spans.md#cut``).
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codec.parts import Message
    from telemetry.attribute_values import AttributePairs

MAX_FLATTENED_ATTRIBUTES = 9_900
"""Attributes from the lists of one exchange: 100 less than OpenInference's tracer provider allows a
span. All other attributes of a span are about 30."""

MAX_FLATTENED_MESSAGES = 5_000
"""Messages of a request: plain ones take two attributes each."""

MAX_FLATTENED_PROMPTS = 2_048
"""Prompts of a legacy completion: as many texts as OpenAI accepts at once."""

MAX_FLATTENED_TOOLS = 512
"""Tools of a request: OpenAI takes 128."""

MAX_FLATTENED_CHOICES = 128
"""Choices of an answer: the largest ``n`` that OpenAI accepts."""

MAX_FLATTENED_TEXT_CHOICES = 4_096
"""Choices of a legacy completion: two for each prompt, one attribute each."""

MAX_FLATTENED_TOOL_CALLS = 256
"""Tool calls of a message: parallel calls are a handful."""

MAX_FLATTENED_PARTS = 1_024
"""Parts of a message's content: OpenAI takes 500 images."""

MAX_FLATTENED_DOCUMENTS = 100
"""Documents of a ranking, on either side: each has a text, and nobody reads as many."""


MAX_OPAQUE_CHARS = 4_096
"""The longest id or encrypted reasoning that is shown; some providers make them 100 KB long."""


class Flattening:
    """The limits of one exchange, and what they cost. Not safe for concurrent calls.

    Attributes:
        cut: the original length of each list that was cut, by its name; the longest of several
            lists with one name.
        messages: the messages of the request, as they were read.
    """

    def __init__(self) -> None:
        self.cut: dict[str, int] = {}
        self.messages: Sequence[Message] = ()
        self._room = MAX_FLATTENED_ATTRIBUTES

    def flatten(
        self,
        name: str,
        entries: Sequence[Any],
        build: Callable[[int, Any], AttributePairs],
        *,
        limit: int,
        newest: bool = False,
    ) -> AttributePairs:
        """Yield the attributes of a list, in its order; each entry keeps its position.

        Args:
            name: the name of the list, for ``cut``.
            entries: the list.
            build: makes the attributes of an entry from its position and itself.
            limit: how many entries at most.
            newest: keep the last entries, as for messages, instead of the first ones.
        """
        if not entries:
            return iter(())
        positions = range(len(entries))
        kept: list[list[tuple[str, object]]] = []
        for position in islice(reversed(positions) if newest else positions, limit):
            pairs = [pair for pair in build(position, entries[position]) if pair[1] is not None]
            if len(pairs) > self._room:
                break
            self._room -= len(pairs)
            kept.append(pairs)
        if len(kept) < len(entries):
            self._note(name, len(entries))
        return chain.from_iterable(reversed(kept) if newest else kept)

    def reserve(self, attributes: int) -> bool:
        """Reserve room for some attributes; return false if there is not enough."""
        if attributes > self._room:
            return False
        self._room -= attributes
        return True

    def first(
        self, name: str, entries: Sequence[Any], limit: int, length: int = 0
    ) -> Iterator[tuple[int, Any]]:
        """Yield the first entries of a list inside an entry, with their positions.

        If more came than was read, `length` is that of the whole list.
        """
        length = max(length, len(entries))
        if length > limit:
            self._note(name, length)
        return islice(enumerate(entries), limit)

    def opaque(self, name: str, text: str | None) -> str | None:
        """Return a text that people cannot read; leave out a long one, noted under `name`."""
        if text is None or len(text) <= MAX_OPAQUE_CHARS:
            return text
        self._note(name, len(text))
        return None

    def _note(self, name: str, length: int) -> None:
        self.cut[name] = max(length, self.cut.get(name, 0))
