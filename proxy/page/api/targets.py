"""Where a recorded call went, and which variable of the shell has a key for it.

A span has the host, port and path of a call, but no scheme and no base path. For a well-known
provider (:mod:`proxy.upstream.catalogue`) these are known; otherwise the scheme is ``https`` only
for port 443. A client chose the path: whatever it is, the host stays the one that was called. A URL
is printable ASCII; other characters of a path are escaped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from codec.apis.table import get_api
from proxy.upstream.catalogue import read_catalogue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.reading.call import RecordedCall

_KEPT: Final = "".join(map(chr, range(0x21, 0x7F))).replace("#", "")
"""Characters that stay in a URL. ``#`` would end it, and no request has one."""

_VERSION = re.compile(r"/v[0-9]+[a-z0-9]*(?=/)")

_VARIABLES: Final = {
    "anthropic": "ANTHROPIC_API_KEY",
    "cerebras": "CEREBRAS_API_KEY",
    "cohere": "CO_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "fireworks": "FIREWORKS_API_KEY",
    "google": "GEMINI_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistralai": "MISTRAL_API_KEY",
    "moonshot": "MOONSHOT_API_KEY",
    "perplexity": "PERPLEXITY_API_KEY",
    "together": "TOGETHER_API_KEY",
    "xai": "XAI_API_KEY",
    "zai": "ZAI_API_KEY",
}
"""The variable that a provider's documentation names, by ``llm.provider``."""

_ANTHROPIC_VERSION: Final = "2023-06-01"
"""The only version of that API; a request must name it."""


class Target(NamedTuple):
    """Where a call goes.

    Attributes:
        url: the whole URL.
        base: the base URL for an SDK: the URL without the part that the API adds.
        variable: the name of the variable that has the key.
        key_header: the name of the header for the key.
        key_prefix: the text before the key in that header.
        headers: other headers that the API needs.
    """

    url: str
    base: str
    variable: str
    key_header: str
    key_prefix: str
    headers: Mapping[str, str]


def find_target(call: RecordedCall, proxy_url: str) -> Target:
    """Find where a call went; if that is not known, the proxy is where it came."""
    name = call.summary.columns.api or ""
    ends = get_api(name).path_ends
    path = call.text("url.path") or (ends[0] if ends else "/")
    path = "/" + path.lstrip("/")  # without a slash, `@host` would change the host
    url = quote(
        _find_url(call.span.attributes, path) or proxy_url + path, _KEPT, errors="backslashreplace"
    )
    base = url.rstrip("/")
    base = base.removesuffix(next((end for end in ends if base.endswith(end)), ""))
    provider = call.text("llm.provider") or ""
    if name.startswith("gemini."):
        return Target(url, base, _VARIABLES["google"], "x-goog-api-key", "", {})
    if call.text("llm.system") == "anthropic":
        versions = {"anthropic-version": _ANTHROPIC_VERSION}
        return Target(url, base, _VARIABLES["anthropic"], "x-api-key", "", versions)
    variable = _VARIABLES.get(provider, "OPENAI_API_KEY")
    return Target(url, base, variable, "Authorization", "Bearer ", {})


def _find_url(attributes: Mapping[str, Any], path: str) -> str | None:
    host, port = attributes.get("server.address"), attributes.get("server.port")
    if not isinstance(host, str) or not host:
        return None
    for known in read_catalogue():
        base = urlsplit(known.url)
        if base.hostname == host:
            if path.startswith(f"/{known.name}/"):
                path = path.removeprefix(f"/{known.name}")
            has_base = not base.path or path.startswith(f"{base.path}/")
            return f"https://{host}{path}" if has_base else known.url + _VERSION.sub("", path, 1)
    host = f"[{host}]" if ":" in host else host
    if port == 443:
        return f"https://{host}{path}"
    return f"http://{host}:{port}{path}" if isinstance(port, int) else f"http://{host}{path}"
