"""The chunks of a generator and their usage, in the shape of a dialect.

The chunks come from a :class:`codec.generator.ChunkGenerator` with running counts (``CONTINUOUS``),
so that the usage so far is known wherever a dialect reports it. The client's request decides which
of its places for usage a dialect uses.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from codec.dialects._deltas import DeltaShaper
from codec.dialects.profile import ErrorForm, NullUsage, UsagePlace
from codec.generator import UsagePolicy

if TYPE_CHECKING:
    from codec.dialects.profile import Dialect, UsageShape
    from codec.text.jsontext import JsonObject

__all__ = ("ChunkShaper", "shape_error", "shape_head", "shape_usage")


def shape_usage(shape: UsageShape, usage: JsonObject, *, unfinished: bool = False) -> JsonObject:
    """Return a generator's usage object in a dialect's shape.

    Args:
        shape: the dialect's shape.
        usage: the generator's object.
        unfinished: more tokens follow.
    """
    prompt, completion = usage["prompt_tokens"], usage["completion_tokens"]
    cached = usage.get("prompt_tokens_details", {}).get("cached_tokens")
    reasoning = usage.get("completion_tokens_details", {}).get("reasoning_tokens")
    if shape.reasoning_apart:
        completion -= reasoning or 0
    shaped: JsonObject = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": usage["total_tokens"],
    }
    if shape.partial and unfinished:
        shaped |= {"completion_tokens": None, "total_tokens": None}
    shaped |= {
        name: dict(member) if isinstance(member, dict) else member
        for name, member in shape.members.items()
    }
    if cached is not None:
        for path in shape.cached:
            _put(shaped, path, cached)
        if shape.uncached is not None:
            _put(shaped, shape.uncached, prompt - cached)
    if reasoning is not None and shape.reasoning is not None:
        _put(shaped, shape.reasoning, reasoning)
    return shaped


def _put(into: JsonObject, path: str, count: int) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        into = into.setdefault(parent, {})
    into[name] = count


_HEAD = ("id", "object", "created", "model", "service_tier", "system_fingerprint")
_ON_FINISH = UsagePlace.FINISH | UsagePlace.EVERY
_GROQ_ID = "req_demo"
_MAX_PADDING = 16
"""The longest padding of a chunk; real ones are as long."""


class ChunkShaper:
    """Reshapes the chunks of one stream, with the usage that the client asked for."""

    def __init__(self, dialect: Dialect, policy: UsagePolicy) -> None:
        self._dialect = dialect
        self._asked = policy is not UsagePolicy.NONE
        self._places = dialect.usage.asked if self._asked else dialect.usage.unasked
        if policy is UsagePolicy.CONTINUOUS and dialect.usage.continuous:
            self._places |= UsagePlace.EVERY
        self._choices: defaultdict[int, DeltaShaper] = defaultdict(lambda: DeltaShaper(dialect))
        self._tokens: defaultdict[int, int] = defaultdict(int)  # by choice
        self._counted = 0  # tokens of all choices
        self._number = 0  # how many chunks had a choice
        self._head: JsonObject = {}
        self._finish_reason: str | None = None  # of the last choice, for dialects that repeat it

    def feed(self, chunk: JsonObject) -> list[JsonObject]:
        """Feed a chunk; return those that it becomes."""
        self._head = {name: chunk[name] for name in _HEAD if name in chunk}
        if not chunk["choices"]:
            return self._last(chunk["usage"])
        (choice,) = chunk["choices"]
        index, finish = choice["index"], choice["finish_reason"]
        counted = chunk["usage"]["completion_tokens"]
        self._tokens[index] += counted - self._counted
        self._counted = counted
        if "text" in choice:
            shaped = self._texts(choice, chunk["usage"])
        else:
            shaped = self._deltas(choice, chunk["usage"])
        if self._dialect.finishes_twice and finish is not None:
            self._finish_reason = self._renamed(finish)
            if UsagePlace.REPEAT not in self._places:
                shaped.append(shaped[-1])
        if finish is not None and UsagePlace.EACH_CHOICE in self._places:
            shaped.append(self._of_choice(index, chunk["usage"]))
        return shaped

    def fail(self, error: JsonObject) -> list[JsonObject]:
        """Return the events of an error that ends the stream: one, or none."""
        shape = self._dialect.error
        if shape.form is ErrorForm.NOTHING:
            return []
        if shape.form not in {ErrorForm.CHUNK, ErrorForm.FINISH_REASON}:
            return [shape_error(shape.form, error)]
        choice = {"index": 0, "delta": {}, "finish_reason": shape.finish_reason}
        said = {} if shape.form is ErrorForm.FINISH_REASON else {"error": error}
        return [self._chunk() | {"choices": [choice]} | said]

    def _deltas(self, choice: JsonObject, usage: JsonObject) -> list[JsonObject]:
        shaper = self._choices[choice["index"]]
        finishes = choice["finish_reason"] is not None
        deltas = shaper.feed(choice["delta"], finishes=finishes)
        return [
            self._with_delta(
                choice, delta, usage, shaper, finishes=finishes and delta is deltas[-1]
            )
            for delta in deltas
        ]

    def _with_delta(
        self,
        choice: JsonObject,
        delta: JsonObject,
        usage: JsonObject,
        shaper: DeltaShaper,
        *,
        finishes: bool,
    ) -> JsonObject:
        extras = self._dialect.extras
        shaped: JsonObject = {"index": choice["index"], "delta": delta} | extras.choice
        if self._dialect.whole_message:
            shaped["message"] = {"role": "assistant", "content": shaper.content}
        if self._dialect.repeats_text:
            text = delta.get("content")
            shaped["text"] = text if isinstance(text, str) else ""
        if choice["logprobs"] is not None and (finishes or not delta.get("tool_calls")):
            shaped["logprobs"] = choice["logprobs"]
        if finishes:
            shaped |= extras.finish_choice
            shaped["finish_reason"] = self._renamed(choice["finish_reason"])
        return self._with_choice(shaped, usage, finishes=finishes)

    def _renamed(self, finish_reason: str) -> str:
        return self._dialect.finish_reasons.get(finish_reason, finish_reason)

    def _texts(self, choice: JsonObject, usage: JsonObject) -> list[JsonObject]:
        finish = choice["finish_reason"]
        if self._dialect.bare_values:
            return [{"value": choice["text"]}] if choice["text"] else []
        if finish is not None:
            renamed = self._dialect.completion_finish_reasons.get(finish, finish)
            choice = choice | {"finish_reason": renamed}
        return [self._with_choice(choice, usage, finishes=finish is not None)]

    def _with_choice(self, choice: JsonObject, usage: JsonObject, *, finishes: bool) -> JsonObject:
        dialect, places = self._dialect, self._places
        counted = shape_usage(dialect.usage, usage, unfinished=not finishes)
        if finishes and UsagePlace.CHOICE in places:
            choice = choice | {"usage": counted}
        chunk = self._chunk() | {"choices": [choice]}
        if dialect.usage.null is NullUsage.ALWAYS or (
            dialect.usage.null is NullUsage.ASKED and self._asked
        ):
            chunk["usage"] = None
        if places & (_ON_FINISH if finishes else UsagePlace.EVERY):
            chunk["usage"] = counted
        if finishes:
            chunk |= dialect.extras.finish
            if UsagePlace.GROQ in places:
                chunk["x_groq"] = {"id": _GROQ_ID, "usage": counted}
        return chunk

    def _chunk(self) -> JsonObject:
        """Return a chunk without its choices and usage."""
        extras = self._dialect.extras
        self._number += 1
        first = extras.first if self._number == 1 else {}
        padding = {}
        if extras.padding is not None:
            padding[extras.padding] = "x" * (self._number * 7 % _MAX_PADDING)
        return shape_head(self._dialect, self._head) | first | padding

    def before(self, chunk: JsonObject) -> JsonObject | None:
        """Return the chunk that a dialect sends before the first one."""
        before = self._dialect.extras.before
        if before is None:
            return None
        head = {name: chunk[name] for name in _HEAD if name in chunk}
        return shape_head(self._dialect, head) | {"choices": []} | before

    def _last(self, usage: JsonObject) -> list[JsonObject]:
        places = self._places
        counts = {"usage": shape_usage(self._dialect.usage, usage)}
        final = counts | self._dialect.extras.final
        shaped: list[JsonObject] = []
        if UsagePlace.REPEAT in places:
            extras = self._dialect.extras
            delta = {"role": "assistant"} | extras.delta
            choice = {"index": 0, "delta": delta} | extras.choice
            choice["finish_reason"] = self._finish_reason
            shaped.append(self._chunk() | {"choices": [choice]} | counts)
        if UsagePlace.FINAL in places:
            shaped.append(self._chunk() | {"choices": []} | final)
        if UsagePlace.BARE in places:
            shaped.append(self._chunk() | final)
        return shaped

    def _of_choice(self, index: int, usage: JsonObject) -> JsonObject:
        completion = self._tokens[index]
        total = usage["prompt_tokens"] + completion
        alone = usage | {"completion_tokens": completion, "total_tokens": total}
        counts = {"usage": shape_usage(self._dialect.usage, alone)}
        return self._chunk() | {"choices": []} | counts | self._dialect.extras.final


def shape_head(dialect: Dialect, head: JsonObject) -> JsonObject:
    """Return the head of a chunk or answer in a dialect's shape."""
    shaped = head | dialect.extras.chunk
    return {name: member for name, member in shaped.items() if name not in dialect.extras.left_out}


def shape_error(form: ErrorForm, error: JsonObject) -> JsonObject:
    """Return an error with ``message``, ``type``, ``param`` and ``code`` as an object."""
    if form is ErrorForm.OBJECT:
        return {"object": "error"} | error
    if form is ErrorForm.TEXT:
        return {"error": error["message"], "error_type": error["type"]}
    return {"error": error}
