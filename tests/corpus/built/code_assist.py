"""Answers of Gemini in Code Assist's envelope (``docs/contract/apis.md#code-assist``)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.corpus.built.gemini import GEMINI, GEMINI_STREAM
from tests.corpus.built.wire import Built
from tests.corpus.oracle import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("CODE_ASSIST", "CODE_ASSIST_STREAM", "COUNT", "enclose_body", "enclose_request")

COUNT = {
    "a count": Built({"totalTokens": 7, "cachedContentTokenCount": 3}),
    "a count refused by its status": Built({"error": {"code": 400, "message": "No"}}, status=400),
}

_ARRAY = "/v1internal:streamGenerateContent"
_chunk = re.compile(rb"^(\[?|data: )(\{.*)$", re.MULTILINE)


def enclose_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request as gemini-cli sends it."""
    return {
        "model": "gemini-3",
        "project": "project-of-somebody",
        "user_prompt_id": "prompt-1",
        "request": {**request, "session_id": "session-1"},
    }


def _enclose(found: re.Match[bytes]) -> bytes:
    before, chunk = found.groups()
    if chunk.strip() == b"{" or b'"error"' in chunk[:9]:
        return found[0]
    array_end = b"]" if chunk.endswith(b"]") else b""
    whole = chunk.removesuffix(b"\r").removesuffix(array_end)
    if parse_json(whole) is None:  # it breaks off
        return before + b'{"response":' + chunk
    ending = chunk[len(whole) :]
    return before + b'{"response":' + whole + b',"traceId":"t-1"}' + ending


def enclose_body(body: Any) -> Any:
    """The body of an answer in envelopes; errors have none."""
    if isinstance(body, bytes):
        return _chunk.sub(_enclose, body)
    if not isinstance(body, dict) or "error" in body:
        return body
    return {"response": body, "traceId": "t-1"}


def _enclose_all(calls: Mapping[str, Built]) -> dict[str, Built]:
    return {
        name: one._replace(
            body=enclose_body(one.body) if one.status < 400 else one.body,
            target=_ARRAY if one.target else "",
        )
        for name, one in calls.items()
    }


CODE_ASSIST = _enclose_all(GEMINI)
CODE_ASSIST_STREAM = _enclose_all(GEMINI_STREAM)
