"""``GET /api/calls/ID/copy``: a command, or a program, that makes a call again.

Rules:

1. It has the request as it was recorded, whole. Where that was cut or hidden, in part or all, there
   is nothing to copy, and the error says why.
2. The key is a variable of whoever runs it. None that was recorded is told: none is.
3. No word of a client's leaves its quotes: a command is quoted for a shell, a program has literals.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final

from codec.apis.table import get_api
from codec.members import object_of
from proxy.page.api.found_calls import find_call
from proxy.page.api.targets import find_target
from proxy.page.errors import PageError
from telemetry.privacy.json_strings import REDACTED
from telemetry.semconv import REQUEST_BODY, MetadataMember

if TYPE_CHECKING:
    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from proxy.page.api.targets import Target
    from proxy.reading.call import RecordedCall
    from telemetry.store.paged_reader import PagedReader

__all__ = ("COPY_PARAMETERS", "copy_call")

COPY_PARAMETERS: Final = ("as",)

_SDK_METHODS: Final = {
    "chat.completions": "chat.completions.create",
    "completions": "completions.create",
    "embeddings": "embeddings.create",
    "images": "images.generate",
    "moderations": "moderations.create",
    "responses": "responses.create",
}
"""By the name of an API that is OpenAI's own: what its SDK calls it."""

_ARGUMENTS: Final = {
    "chat.completions": frozenset(
        {
            *("max_completion_tokens", "max_tokens", "messages", "model", "n", "reasoning_effort"),
            *("response_format", "seed", "stop", "stream", "stream_options", "temperature"),
            *("tool_choice", "tools", "top_p"),
        }
    ),
    "responses": frozenset(
        {
            *("input", "instructions", "max_output_tokens", "model", "reasoning", "stream"),
            *("temperature", "text", "tool_choice", "tools", "top_p"),
        }
    ),
}
"""Members that a method takes by their names; all others go into its ``extra_body``, which takes
what any provider has of its own."""

_FEW: Final = frozenset({"input", "model", "prompt"})

_WIDTH: Final = 80
"""Characters of a literal that stands in one line."""

MAX_ARGUMENT_BYTES: Final = 100_000
"""Linux takes 128 KiB for one argument of a command."""


def copy_call(reader: PagedReader, parameters: Parameters) -> JsonObject:
    """Write a call as something that makes it again.

    Raises:
        PageError: the request is not there whole.
    """
    form = parameters.word("as", ("curl", "python", "json"))
    call = find_call(reader, parameters)
    body = _read_body(call)
    if form == "json":
        return {"text": _write_json(body)}
    target = find_target(call)
    if form == "curl":
        return {"text": _write_curl(target, call, body)}
    method = _SDK_METHODS.get(call.summary.columns.api or "")
    if method is None or not isinstance(body, dict) or not target.key_prefix:
        return {"text": _write_plain(target, call, body)}
    return {"text": _write_sdk(target, call, method, body)}


def _read_body(call: RecordedCall) -> Any:
    """Read the request, where it is whole (rule 1)."""
    text = call.request_text
    cut = object_of(call.metadata.get(MetadataMember.CUT))
    if REQUEST_BODY in cut or "input.value" in cut:
        raise PageError("not_found", "the request was too large to be recorded whole")
    if text is None or text == REDACTED:
        raise PageError("not_found", "the request was not recorded, or is hidden by the settings")
    if REDACTED in text:
        raise PageError("not_found", "parts of the request are hidden by the settings")
    if get_api(call.summary.columns.api or "").takes_forms:
        raise PageError("not_found", "the request may have been a form, whose file is not recorded")
    return call.request


def _write_json(body: Any) -> str:
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, indent=2)


def _write_curl(target: Target, call: RecordedCall, body: Any) -> str:
    """Write a command for a shell; its key is the one thing that the shell fills in."""
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    lines = [f"curl {shlex.quote(target.url)}"]
    if call.requested_streaming:
        lines[0] += " --no-buffer"
    lines += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in _headers(target).items()]
    lines.append(f'-H "{target.key_header}: {target.key_prefix}${target.variable}"')
    if len(text.encode("utf-8", "surrogatepass")) > MAX_ARGUMENT_BYTES and "\n" not in text:
        lines.append(f"--data-binary @- <<'SPANTAP'\n{text}\nSPANTAP")
    else:
        lines.append(f"--data-raw {shlex.quote(text)}")  # whatever it begins with is no file's name
    return " \\\n  ".join(lines)


def _headers(target: Target) -> dict[str, str]:
    return {"Content-Type": "application/json", **target.headers}


def _write_sdk(target: Target, call: RecordedCall, method: str, body: JsonObject) -> str:
    """Write a program that uses OpenAI's SDK."""
    known = _ARGUMENTS.get(call.summary.columns.api or "", _FEW)
    arguments = {name: value for name, value in body.items() if name in known}
    others = {name: value for name, value in body.items() if name not in known}
    if others:
        arguments["extra_body"] = others
    lines = [
        "import os",
        "",
        "from openai import OpenAI",
        "",
        f"client = OpenAI(base_url={target.base!a}, api_key=os.environ[{target.variable!a}])",
        f"answer = client.{method}(",
        *(f"    {name}={_literal(value)}," for name, value in arguments.items()),
        ")",
    ]
    if body.get("stream") is True:
        lines += ["for event in answer:", "    print(event)"]
    else:
        lines.append("print(answer)")
    return "\n".join(lines) + "\n"


def _write_plain(target: Target, call: RecordedCall, body: Any) -> str:
    """Write a program that uses an HTTP client and no SDK."""
    headers = ", ".join(f"{name!a}: {value!a}" for name, value in _headers(target).items())
    key = f"{target.key_header!a}: {target.key_prefix!a} + os.environ[{target.variable!a}]"
    content = "content" if isinstance(body, str) else "json"
    given = [
        f"    {target.url!a},",
        f"    headers={{{headers}, {key}}},",
        f"    {content}={_literal(body)},",
        "    timeout=600,",
    ]
    if call.requested_streaming:
        opened = ["with httpx.stream(", '    "POST",', *given, ") as answer:"]
        shown = ["    for line in answer.iter_lines():", "        print(line)"]
    else:
        opened = ["answer = httpx.post(", *given, ")"]
        shown = ["print(answer.text)"]
    return "\n".join(["import os", "", "import httpx", "", *opened, *shown]) + "\n"


def _literal(value: Any, indent: str = "    ") -> str:
    """Write a value of JSON as a literal of Python, a member a line where it is long."""
    if not isinstance(value, dict | list) or len(short := repr(value)) <= _WIDTH:
        return repr(value) if not isinstance(value, dict | list) else short
    deeper = indent + "    "
    if isinstance(value, dict):
        lines = [f"{deeper}{name!r}: {_literal(item, deeper)}," for name, item in value.items()]
        return "\n".join(["{", *lines, f"{indent}}}"])
    lines = [f"{deeper}{_literal(item, deeper)}," for item in value]
    return "\n".join(["[", *lines, f"{indent}]"])
