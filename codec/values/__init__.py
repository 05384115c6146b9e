"""Values: requests and answers of chats, normalised, and the way back to bytes, for library users.

A value is immutable and knows the members that have a meaning; all others are in its ``extra``. The
way back is a merge: the value is compared with what the original bytes say, and what is the same
keeps its bytes (:mod:`codec.values.splice`).

:func:`read_response_values` reads an answer that is folded already, streamed or not.
:func:`splice_json` does the merge for any JSON.

Doors: ``decode_request_values``, ``encode_request_values``, ``decode_response_values``,
``encode_response_values``, ``read_response_values``, ``splice_json``, and the values themselves.

>>> from dataclasses import replace
>>> body = b'{"model":"m-1", "temperature":1.0, "messages":[{"role":"user","content":"Hi"}]}'
>>> request = decode_request_values(body)
>>> request.messages[0].content
'Hi'
>>> encode_request_values(replace(request, model="m-2"), body)
b'{"model":"m-2", "temperature":1.0, "messages":[{"role":"user","content":"Hi"}]}'
"""

from __future__ import annotations

from codec.values.choices import AnsweredCall, AnsweredChoice, decode_call, decode_choice
from codec.values.messages import ChatMessage, MessageCall, OtherMessage, decode_message
from codec.values.parts import (
    AudioPart,
    ContentPart,
    FilePart,
    MediaPart,
    OtherPart,
    RefusalPart,
    TextPart,
    ThinkingPart,
    decode_part,
)
from codec.values.requests import (
    GenerationParameters,
    RequestValues,
    decode_parameters,
    decode_request_values,
    encode_request_values,
)
from codec.values.responses import (
    ResponseValues,
    decode_response_values,
    encode_response_values,
    read_response_values,
)
from codec.values.splice import splice_json
from codec.values.tools import ToolChoice, ToolDefinition, decode_tool, decode_tool_choice

__all__ = (
    "AnsweredCall",
    "AnsweredChoice",
    "AudioPart",
    "ChatMessage",
    "ContentPart",
    "FilePart",
    "GenerationParameters",
    "MediaPart",
    "MessageCall",
    "OtherMessage",
    "OtherPart",
    "RefusalPart",
    "RequestValues",
    "ResponseValues",
    "TextPart",
    "ThinkingPart",
    "ToolChoice",
    "ToolDefinition",
    "decode_call",
    "decode_choice",
    "decode_message",
    "decode_parameters",
    "decode_part",
    "decode_request_values",
    "decode_response_values",
    "decode_tool",
    "decode_tool_choice",
    "encode_request_values",
    "encode_response_values",
    "read_response_values",
    "splice_json",
)
