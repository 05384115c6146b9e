"""A call as a program of Python that makes it again: printable ASCII, whatever was recorded.

Rules:

1. OpenAI's SDK where it has a method that sends to the call's path: it writes the body anew, with
   the same values.
2. Any other call goes by an HTTP client that sends the bytes that were recorded. They are
   written as values where ``json.dumps`` makes these very bytes of them, else as they are.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from codec.apis.table import get_api

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.page.api.targets import Target

_SDK_METHODS: Final = {
    "chat.completions": "chat.completions.create",
    "completions": "completions.create",
    "embeddings": "embeddings.create",
    "images": "images.generate",
    "moderations": "moderations.create",
    "responses": "responses.create",
}
"""The method of OpenAI's SDK, by the name of an API that is OpenAI's."""

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

_MAX_LEVELS: Final = 60
"""Levels of a literal; the parser of Python refuses those with 200."""

_ENCODINGS: Final[tuple[dict[str, Any], ...]] = (
    {"separators": (",", ":"), "ensure_ascii": False},
    {"separators": (",", ":")},
    {},
    {"ensure_ascii": False},
)
"""How ``json.dumps`` is asked for what clients send; most send the first."""


def write_sdk(target: Target, api: str, body: Any) -> str | None:
    """Write a program that uses OpenAI's SDK; ``None`` where that cannot make the call (rule 1)."""
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
    """Write a program that uses an HTTP client and no SDK."""
    told = ", ".join(f"{name!a}: {value!a}" for name, value in headers.items())
    key = f"{target.key_header!a}: {target.key_prefix!a} + os.environ[{target.variable!a}]"
    content = _content(text, body)
    given = [
        f"    {target.url!a},",
        f"    headers={{{told}, {key}}},",
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
    """Write an expression that is a body's text (rule 2)."""
    if isinstance(body, dict | list) and _fits(body, _MAX_LEVELS):
        for options in _ENCODINGS:
            if json.dumps(body, **options) == text:
                given = "".join(f", {name}={value!a}" for name, value in options.items())
                return f"json.dumps({_literal(body)}{given})"
    return ascii(text)


def _fits(value: Any, levels: int) -> bool:
    """Tell whether a value has so many levels at most."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_fits(one, levels - 1) for one in inner)


def _is_text(value: Any) -> bool:
    """Tell whether UTF-8 has words for all of a value: for half a character it has none."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _literal(value: Any, indent: str = "    ") -> str:
    """Write a value of JSON as a literal of Python, a member a line where it is long."""
    if not isinstance(value, dict | list) or len(ascii(value)) <= _WIDTH:
        return ascii(value)
    deeper = indent + "    "
    if isinstance(value, dict):
        lines = [f"{deeper}{name!a}: {_literal(item, deeper)}," for name, item in value.items()]
        return "\n".join(["{", *lines, f"{indent}}}"])
    lines = [f"{deeper}{_literal(item, deeper)}," for item in value]
    return "\n".join(["[", *lines, f"{indent}]"])
