"""Faults to be planted into the folds of the APIs, as other words in their source."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ("MUTANTS", "Mutant")


class Mutant(NamedTuple):
    """A fault.

    Attributes:
        module: where it is, below ``codec.apis``.
        before: words of a function there, which occur once.
        after: what is in their place.
        found: a word of what is said of it.
        apis: names of the APIs in whose exchanges it shows, if not that of the module's folder.
    """

    module: str
    before: str
    after: str
    found: str
    apis: tuple[str, ...] = ()


_SPEECH = ("audio.speech",)
_HEARING = ("audio.transcriptions",)
_GEMINI = ("gemini.generate", "gemini.stream")
_STREAM = ("gemini.stream",)
_CHAT = ("ollama.chat",)
_OLLAMA = ("ollama.chat", "ollama.generate")

MUTANTS = {
    "counts are summed": Mutant(
        "messages.fold",
        "known[name] = value",
        "known[name] = value + known.get(name, 0) if type(value) is int else value",
        "token",
    ),
    "a null erases a count": Mutant(
        "messages.fold",
        "if is_known and value is None:",
        "if not name:",
        "token_count",
    ),
    "a zero replaces a count": Mutant(
        "messages.fold",
        'if new.get("input_tokens") == 0 else',
        "if not new else",
        "prompt",
    ),
    "the cache is not in the prompt": Mutant(
        "messages.counts",
        "count_of(prompt + more[0] + (read or 0) + (written or 0))",
        "prompt",
        "prompt",
    ),
    "a stream that broke off has its first guess": Mutant(
        "messages.counts",
        "None if is_cut else first_count",
        "first_count",
        "completion",
    ),
    "compactions are not counted": Mutant(
        "messages.counts",
        'step.get("type") == kind',
        "not kind",
        "token_count",
    ),
    "signatures replace one another": Mutant(
        "messages.block_fold",
        "text, member = join_text(pieces), _MEMBERS[kind]",
        "text, member = join_text(pieces[-1:]), _MEMBERS[kind]",
        "contents",
    ),
    "arguments stay text": Mutant(
        "messages.block_fold",
        "return text if isinstance(value, str) else value",
        "return text",
        "output.value",
    ),
    "blocks without order": Mutant(
        "messages.fold",
        "in sorted(self._places.items())",
        "in reversed(self._places.items())",
        "contents",
    ),
    "citations are lost": Mutant(
        "messages.fold",
        "known.append(citation)",
        "known[:] = [citation]",
        "output.value",
    ),
    "a reason is no end": Mutant(
        "messages.said",
        "if self.has_end or self.finish_reason is not None:",
        "if self.has_end:",
        "outcome",
    ),
    "results are parts of an answer": Mutant(
        "messages.said",
        "if not is_result(one)",
        "if one",
        "contents",
    ),
    "the first model stays": Mutant(
        "messages.fold",
        'self._force(object_of(value.get("to")), "model")',
        "pass",
        "llm.model_name",
    ),
    "the first of several messages counts": Mutant(
        "messages.fold",
        'self.note("several_responses")',
        "return",
        "output.value",
    ),
    "a path names no model": Mutant(
        "messages.asked",
        "if named else _MODEL_IN_PATH",
        "if True else _MODEL_IN_PATH",
        "llm.model_name",
    ),
    "thoughts are no part of what was said": Mutant(
        "gemini.said",
        "completion = (completion or 0) + thoughts",
        "pass",
        "completion",
        _GEMINI,
    ),
    "what tools found is no part of the prompt": Mutant(
        "gemini.said",
        "prompt += found or 0",
        "pass",
        "prompt",
        _GEMINI,
    ),
    "thoughts are always beside the candidates": Mutant(
        "gemini.said",
        "not (includes and is_full)",
        "not (False and is_full)",
        "completion",
        _GEMINI,
    ),
    "the first counts stay": Mutant(
        "gemini.fold",
        "merge_usage(self._usage, object_of(member_of(",
        "self._usage or merge_usage(self._usage, object_of(member_of(",
        "token_count",
        _STREAM,
    ),
    "the counts of words are lost": Mutant(
        "gemini.fold",
        "self._later_counts = counts",
        "pass",
        "token_count",
        _STREAM,
    ),
    "the first reason stays": Mutant(
        "gemini.fold",
        'known.members["finishReason"] = word',
        'known.members.setdefault("finishReason", word)',
        "finish_reason",
        _STREAM,
    ),
    "a chunk behind the reason is lost": Mutant(
        "gemini.fold",
        "known = self._candidates.get(index)\n        if known is None:",
        "known = self._candidates.get(index)\n"
        '        if known is not None and "finishReason" in known.members:\n'
        "            return\n"
        "        if known is None:",
        "output",
        _STREAM,
    ),
    "thoughts and texts are joined": Mutant(
        "gemini.fold",
        "or last.pieces is None or last.value != kind",
        "or last.pieces is None",
        "contents",
        _STREAM,
    ),
    "texts are not joined": Mutant(
        "gemini.fold",
        "or last.pieces is None or last.value != kind",
        "or True",
        "content",
        _STREAM,
    ),
    "arguments in pieces end with the first": Mutant(
        "gemini.fold",
        "known += pieces",
        "known[:] = pieces",
        "arguments",
        _STREAM,
    ),
    "candidates by their place": Mutant(
        "gemini.fold",
        "index = place if named is None else named",
        "index = place",
        "message",
        _STREAM,
    ),
    "an array needs no bracket": Mutant(
        "gemini.said",
        "if self.is_cut or self.is_cut_off or not",
        "if self.is_cut_off or not",
        "outcome",
        _STREAM,
    ),
    "a blocked prompt has no reason": Mutant(
        "gemini.said",
        "return [(0, block)]",
        "return []",
        "finish_reason",
        _GEMINI,
    ),
    "signatures are lost": Mutant(
        "gemini.content",
        "return Text(text, signature) if",
        "return Text(text) if",
        "signature",
        _GEMINI,
    ),
    "thinking is lost": Mutant(
        "ollama.turns",
        'if thinking := text_of(value.get("thinking")):',
        "if thinking := None:",
        "contents",
        _CHAT,
    ),
    "texts begin anew with each line": Mutant(
        "ollama.stream",
        "if pieces is None and self",
        "if self",
        "content",
        _OLLAMA,
    ),
    "calls of the last line alone": Mutant(
        "ollama.stream",
        "merge_members(into, members, skip=(), budget=self.budget, extend_lists=True)",
        "into.update(members)",
        "tool_calls",
        _CHAT,
    ),
    "a total of one count": Mutant(
        "ollama.said",
        "if prompt is not None and completion is not None else None",
        "if completion is not None and (prompt := prompt or 0) is not None else None",
        "token",
        _OLLAMA,
    ),
    "arguments with white space": Mutant(
        "ollama.turns",
        "compact_text(asked)",
        "str(asked)",
        "arguments",
        _CHAT,
    ),
    "no end is an end": Mutant(
        "ollama.said",
        'if self.body.get("done") is True:',
        "if True:",
        "outcome",
        _OLLAMA,
    ),
    "a model that was loaded speaks": Mutant(
        "ollama.said",
        "if message is None or word in _OF_MODELS:",
        "if message is None:",
        "output_messages",
        _CHAT,
    ),
    "a context is kept": Mutant(
        "ollama.said",
        'body["context"] = f"<{len(context)} tokens>"',
        "pass",
        "output.value",
        ("ollama.generate",),
    ),
    "the first text of a content": Mutant(
        "gemini.vectors",
        'return "".join(texts) or None',
        "return texts[0]",
        "embedding.text",
        ("gemini.embed",),
    ),
    "one text of several": Mutant(
        "ollama.vectors",
        "return () if texts is None else (texts,)",
        "return ()",
        "embedding.text",
        ("ollama.embed",),
    ),
    "ranks are indexes": Mutant(
        "rerank.route",
        'index=index_of(members.get("index"))',
        "index=0",
        "output_documents",
    ),
    "another score": Mutant(
        "rerank.route",
        "return score if isfinite(score) else None",
        "return abs(score)",
        "score",
    ),
    "the total is no prompt": Mutant(
        "rerank.route",
        "first_count(counts, PROMPT_COUNTS), total)",
        "first_count(counts, PROMPT_COUNTS))",
        "prompt",
    ),
    "Voyage's list is unknown": Mutant(
        "rerank.route",
        '("results", "data")',
        '("results",)',
        "output_documents",
    ),
    "documents as JSON": Mutant(
        "rerank.route",
        "if isinstance(text, str):\n        return text",
        "if False:\n        pass",
        "input_documents",
    ),
    "all must be flagged": Mutant(
        "moderations.route",
        "any(said)",
        "all(said)",
        "flagged",
    ),
    "categories as often as found": Mutant(
        "moderations.route",
        "tuple(dict.fromkeys(found))",
        "tuple(found)",
        "categories",
    ),
    "items are known by their ids": Mutant(
        "responses.item_list",
        "return item.is_unnamed or (is_alike and",
        "return item.is_unnamed or (not value and",
        "output",
    ),
    "the end is all that is told": Mutant(
        "responses.fold",
        'join_outputs(response.get("output"), items)',
        'list_of(response.get("output"))',
        "output",
    ),
    "an answer that is incomplete has no reason": Mutant(
        "responses.said",
        '.get("reason")) or self.status',
        '.get("none")) or self.status',
        "finish_reason",
    ),
    "a failure is a success": Mutant(
        "responses.said",
        'if self.status == "failed" else None',
        "if False else None",
        "outcome",
    ),
    "a cancelled answer is complete": Mutant(
        "responses.said",
        "return Ending.CANCELLED",
        "return Ending.COMPLETE",
        "outcome",
    ),
    "images that are not finished are no images": Mutant(
        "images.route",
        "self._partial_count += 1",
        "pass",
        "partial_images",
    ),
    "images are one": Mutant(
        "images.route",
        "self._images.append(event)",
        "self._images[:] = [event]",
        "contents",
    ),
    "no image is all": Mutant(
        "images.route",
        "Ending.STOPPED if count and not self.is_cut_off else Ending.OPEN",
        "Ending.STOPPED",
        "outcome",
    ),
    "long images stay": Mutant(
        "images.route",
        "pictures.shorten(item)",
        "pass",
        "image",
    ),
    "signatures stay": Mutant(
        "images.route",
        'f"{address}?REDACTED" if mark else url',
        "url if mark else address",
        "image",
    ),
    "sound is as long as its base64": Mutant(
        "speech.route",
        'count_sound(sound or "")',
        'len(sound or "")',
        "output_bytes",
        _SPEECH,
    ),
    "sound needs no end": Mutant(
        "speech.route",
        "Ending.OPEN if streamed or is_bytes else Ending.STOPPED",
        "Ending.COMPLETE",
        "outcome",
        _SPEECH,
    ),
    "pieces win over the whole": Mutant(
        "transcriptions.route",
        "body |= self._end",
        "body = self._end | body",
        "content",
        _HEARING,
    ),
    "speakers are lost": Mutant(
        "transcriptions.route",
        "self._segments.append(event)",
        "pass",
        "output.value",
        _HEARING,
    ),
    "a transcription needs no end": Mutant(
        "transcriptions.route",
        "Ending.OPEN if self.is_cut else Ending.COMPLETE",
        "Ending.COMPLETE",
        "outcome",
        _HEARING,
    ),
}
"""By what is wrong, in words."""
