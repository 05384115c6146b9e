"""``GET /api/calls/ID/copy``: a command, or a Python program, that makes a call again.

It has the whole request as it was recorded, and a variable of the user's shell for the key; no key
is ever recorded.

A client's text cannot leave its quotes: a command is quoted for a shell, a program has literals.
Both are printable ASCII, with only our line ends. So the text, and the JSON that it comes in, bring
a terminal or a shell no control character, and no mark that changes the direction of writing.
"""

from __future__ import annotations

import base64
import json
import shlex
from typing import TYPE_CHECKING, Any, Final

from codec.apis.table import get_api
from codec.members import object_of
from proxy.escape import UNSAFE, escape
from proxy.page.api.found_calls import find_call
from proxy.page.api.targets import find_target
from proxy.page.errors import PageError
from proxy.reading.pictures import list_pictures
from telemetry.privacy.json_strings import REDACTED
from telemetry.semconv import REQUEST_BODY, MetadataMember
from telemetry.store.rows import LeftOut

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codec.text.jsontext import JsonObject
    from proxy.page.api.parameters import Parameters
    from proxy.page.api.targets import Target
    from proxy.reading.call import RecordedCall
    from telemetry.reading.calls import Calls

COPY_PARAMETERS: Final = ("as",)


def copy_call(reader: Calls, parameters: Parameters, proxy_url: str) -> JsonObject:
    """Write a call as a text that makes it again.

    Args:
        reader: the calls.
        parameters: which call, and as what.
        proxy_url: where clients reach the proxy.

    Raises:
        PageError: the request is cut or hidden, in part or whole; the message says why.
    """
    form = parameters.word("as", ("curl", "python", "json"))
    call = find_call(reader, parameters)
    text = _read_body(call)
    if form == "json":
        return {"text": _write_json(call.request)}
    target = find_target(call, proxy_url)
    headers, is_streamed = _headers(target), call.requested_streaming
    if form == "curl":
        body = text.encode("utf-8", "backslashreplace")
        return {"text": write_curl(target, headers, body, is_streamed=is_streamed)}
    api = call.summary.columns.api or ""
    program = write_sdk(target, api, call.request)
    if program is None:
        program = write_plain(target, headers, text, call.request, is_streamed=is_streamed)
    return {"text": program}


def _read_body(call: RecordedCall) -> str:
    """Read the text of the request, which must be whole."""
    text = call.request_text
    cut = object_of(call.metadata.get(MetadataMember.CUT))
    if REQUEST_BODY in cut or "input.value" in cut:
        raise PageError("not_found", "the request was too large to be recorded whole")
    if text is None or text == REDACTED:
        raise PageError("not_found", "the request was not recorded, or is hidden by the settings")
    if left_out := text.count(REDACTED):
        raise PageError("not_found", _tell_left_out(call, left_out))
    if get_api(call.summary.columns.api or "").takes_forms:
        raise PageError("not_found", "the request may have been a form, whose file is not recorded")
    return text


def _tell_left_out(call: RecordedCall, count: int) -> str:
    """Say why `count` texts of a request are missing: its long pictures, or hidden ones."""
    if count <= len([*list_pictures(call.input_messages)]):
        return f"the request has a picture that is not in the span: {LeftOut.IMAGE_LIMIT.words}"
    return "parts of the request are hidden by the settings"


def _write_json(body: Any) -> str:
    if isinstance(body, str):
        return escape(body)
    text = json.dumps(body, ensure_ascii=False, indent=2)
    return UNSAFE.sub(lambda one: f"\\u{ord(one[0]):04x}", text)  # they only occur in strings


def _headers(target: Target) -> dict[str, str]:
    return {"Content-Type": "application/json", **target.headers}


MAX_ARGUMENT_BYTES: Final = 100_000
"""The longest argument of a command; Linux allows 128 KiB."""

_LINE_CHARACTERS: Final = 76
"""Characters of Base64 in a line, as ``base64`` writes them."""

_END: Final = "SPANTAP"
"""The line after the Base64, whose lines never have seven characters."""

_ESCAPES: Final = {ord("\n"): "\\n", ord("\r"): "\\r", ord("%"): "%%", ord("\\"): "\\\\"}
"""The escapes of ``printf`` for these characters."""

_MEANT: Final = frozenset(b"'!`")
"""Characters with a meaning for a shell or its history."""


def write_curl(
    target: Target, headers: Mapping[str, str], body: bytes, *, is_streamed: bool
) -> str:
    """Write a command; the shell fills in only the key.

    A body that cannot be an argument, or is too long for one, is Base64 on the command's input.
    """
    command = f"curl {_quote(target.url.encode())}"
    if any(mark in target.url for mark in "[]{}"):
        command += " --globoff"
    if "/." in target.url:
        command += " --path-as-is"
    if is_streamed:
        command += " --no-buffer"
    lines = [command]
    lines += [f"-H {_quote(f'{name}: {value}'.encode())}" for name, value in headers.items()]
    lines.append(f'-H "{target.key_header}: {target.key_prefix}${target.variable}"')
    if _fits_word(body):
        lines.append(f"--data-raw {_quote(body)}")  # a body that begins with @ is not a file name
        return " \\\n  ".join(lines)
    lines[0] = f"base64 -d <<'{_END}' | {lines[0]}"
    lines.append("--data-binary @-")
    text = base64.b64encode(body).decode()
    starts = range(0, len(text), _LINE_CHARACTERS)
    encoded = "\n".join(text[at : at + _LINE_CHARACTERS] for at in starts)
    return " \\\n  ".join(lines) + f"\n{encoded}\n{_END}\n"


def _fits_word(body: bytes) -> bool:
    """Tell whether a body can be an argument: a shell drops line ends at the end of ``printf``."""
    return len(body) <= MAX_ARGUMENT_BYTES and b"\0" not in body and not body.endswith(b"\n")


def _quote(word: bytes) -> str:
    """Quote a word for a shell.

    If it is not printable ASCII, ``printf`` writes it, with three octal digits for each other byte:
    all shells read that alike, and only some know ``$'…'``.
    """
    if all(_is_printable(byte) for byte in word):
        return shlex.quote(word.decode("ascii"))
    return "\"$(printf -- '" + "".join(map(_escape, word)) + "')\""


def _escape(byte: int) -> str:
    if _is_printable(byte) and byte not in _MEANT and byte not in _ESCAPES:
        return chr(byte)
    return _ESCAPES.get(byte, f"\\{byte:03o}")


def _is_printable(byte: int) -> bool:
    return 0x20 <= byte < 0x7F


_SDK_METHODS: Final = {
    "chat.completions": "chat.completions.create",
    "completions": "completions.create",
    "embeddings": "embeddings.create",
    "images": "images.generate",
    "moderations": "moderations.create",
    "responses": "responses.create",
}
"""The method of OpenAI's SDK for each API of OpenAI."""

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
"""Members that a method takes as arguments; all others go into its ``extra_body``, which accepts
any member of any provider."""

_FEW: Final = frozenset({"input", "model", "prompt"})

_WIDTH: Final = 80
"""The most characters of a literal in one line."""

_MAX_LEVELS: Final = 60
"""The most levels of a literal; Python's parser refuses 200."""

_ENCODINGS: Final[tuple[dict[str, Any], ...]] = (
    {"separators": (",", ":"), "ensure_ascii": False},
    {"separators": (",", ":")},
    {},
    {"ensure_ascii": False},
)
"""Options of ``json.dumps`` that make the JSON that clients send; most send the first."""


def write_sdk(target: Target, api: str, body: Any) -> str | None:
    """Write a program that uses OpenAI's SDK; ``None`` if the SDK cannot make the call.

    That needs a method that sends to the call's path. The SDK encodes the body again, with the same
    values.
    """
    method = _SDK_METHODS.get(api)
    if method is None or not target.url.endswith(get_api(api).path_ends[0]):
        return None
    if not isinstance(body, dict) or not target.key_prefix:
        return None
    if not _fits(body, _MAX_LEVELS) or not _is_text(body):
        return None
    known = _ARGUMENTS.get(api, _FEW)
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


def write_plain(
    target: Target, headers: Mapping[str, str], text: str, body: Any, *, is_streamed: bool
) -> str:
    """Write a program that sends the recorded bytes with an HTTP client, without an SDK."""
    named = ", ".join(f"{name!a}: {value!a}" for name, value in headers.items())
    key = f"{target.key_header!a}: {target.key_prefix!a} + os.environ[{target.variable!a}]"
    content = _content(text, body)
    given = [
        f"    {target.url!a},",
        f"    headers={{{named}, {key}}},",
        f"    content={content},",
        "    timeout=600,",
    ]
    if is_streamed:
        opened = ["with httpx.stream(", '    "POST",', *given, ") as answer:"]
        shown = ["    for line in answer.iter_lines():", "        print(line)"]
    else:
        opened = ["answer = httpx.post(", *given, ")"]
        shown = ["print(answer.text)"]
    imports = ["import json"] if content.startswith("json.") else []
    return "\n".join([*imports, "import os", "", "import httpx", "", *opened, *shown]) + "\n"


def _content(text: str, body: Any) -> str:
    """Write an expression for a body's text.

    It has values if ``json.dumps`` makes exactly these bytes of them, else the text itself.
    """
    if isinstance(body, dict | list) and _fits(body, _MAX_LEVELS):
        for options in _ENCODINGS:
            if json.dumps(body, **options) == text:
                given = "".join(f", {name}={value!a}" for name, value in options.items())
                return f"json.dumps({_literal(body)}{given})"
    return ascii(text)


def _fits(value: Any, levels: int) -> bool:
    """Tell whether a value has at most so many levels."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_fits(one, levels - 1) for one in inner)


def _is_text(value: Any) -> bool:
    """Tell whether a value can be encoded in UTF-8: half a surrogate pair cannot."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _literal(value: Any, indent: str = "    ") -> str:
    """Write a JSON value as a Python literal; a long one has a line for each member."""
    if not isinstance(value, dict | list) or len(ascii(value)) <= _WIDTH:
        return ascii(value)
    deeper = indent + "    "
    if isinstance(value, dict):
        lines = [f"{deeper}{name!a}: {_literal(item, deeper)}," for name, item in value.items()]
        return "\n".join(["{", *lines, f"{indent}}}"])
    lines = [f"{deeper}{_literal(item, deeper)}," for item in value]
    return "\n".join(["[", *lines, f"{indent}]"])
