"""Programs that need more than variables to use a proxy, and what each of them needs.

A row of :data:`TOOLS` is found by the program's name; its functions say which version was tried.
What data can say is in the table of :mod:`proxy.launches.programs`. ``spantap run`` says what it
changed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from codec.text.jsontext import decode_json_object
from proxy.launches.programs import read_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.launches.bases import Bases

_CODEX, _ZEN = "codex", "opencode"
"""Names of base URLs that a launch requests."""

_ANTHROPIC = "api.anthropic.com"
_FIRST_PARTY = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"
"""A variable of Claude Code: it says that its base URL leads to Anthropic, despite another host."""

_DASHSCOPE_PROXY = "DASHSCOPE_PROXY_BASE_URL"
_DASHSCOPES = (
    *(".dashscope.aliyuncs.com", ".dashscope-intl.aliyuncs.com", ".dashscope-us.aliyuncs.com"),
    *(".alibaba-inc.com", ".aliyun-inc.com", ".alicloudapi.com"),
)
"""The hosts that qwen-code takes for DashScope."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The command that is about to be started.

    Attributes:
        arguments: those of the program, as far as they can be seen.
        environ: its environment, with the variables of the launch.
        folder: for a file, if the program needs one.
        set_urls: base URLs that were set before, or are the program's own, by variable.
    """

    arguments: Sequence[str]
    environ: Mapping[str, str]
    folder: Path
    set_urls: Mapping[str, str] = {}


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that are made for a program.

    Attributes:
        arguments: after the program's name, before the user's.
        variables: in its environment; ``None`` leaves one as it was.
        summary: the same in a few words, for the user; empty if nothing is changed.
    """

    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str | None] = {}
    summary: str = ""


def _no_urls(_: Start) -> dict[str, str]:
    return {}


class Tool(NamedTuple):
    """What is known about a program.

    Attributes:
        adapt: returns what to change.
        find_urls: finds base URLs that the program itself has, by names for the launch's bases or
            by variables that are not set.
    """

    adapt: Callable[[Start, Bases], Changes]
    find_urls: Callable[[Start], dict[str, str]] = _no_urls


def find_tool(name: str) -> Tool:
    """Find the functions of a program."""
    return TOOLS.get(name, _ANY_OTHER)


def _adapt_claude(start: Start, bases: Bases) -> Changes:
    """Let Claude Code 2.1 send the same through us as to Anthropic directly.

    To any other base URL it sends fewer headers and betas, and no global scope for its cache. If
    the user has set the variable, it stays; and no other upstream is taken for Anthropic.
    """
    name = "ANTHROPIC_BASE_URL"
    base = start.environ.get(name, "")
    if _FIRST_PARTY in start.environ or not base.startswith(bases.root):
        return Changes()
    asked = start.set_urls.get(name, "") if bases.is_elsewhere(name) else ""
    host = urlsplit(asked).hostname if asked else bases.messages_host
    if host != _ANTHROPIC or not (asked or base == bases.root):
        return Changes()
    return Changes(variables={_FIRST_PARTY: "1"}, summary=f"{_FIRST_PARTY}=1")


def _find_codex_urls(start: Start) -> dict[str, str]:
    """Find the base URL of Codex's configuration, or that of a login with ChatGPT."""
    home = Path(start.environ.get("CODEX_HOME") or Path.home() / ".codex")
    configured = _read_toml(home / "config.toml").get("openai_base_url")
    if isinstance(configured, str) and configured:
        return {_CODEX: configured}
    if read_json(home / "auth.json").get("tokens") and not start.environ.get("CODEX_API_KEY"):
        return {_CODEX: "https://chatgpt.com/backend-api/codex"}
    return {}


def _adapt_codex(start: Start, bases: Bases) -> Changes:
    """Add a flag, because Codex 0.171 reads its base URL only from there (openai/codex#16720)."""
    if any("openai_base_url" in word for word in start.arguments):
        return Changes()
    flag = f"openai_base_url={bases.find(_CODEX) or start.environ['OPENAI_BASE_URL']}"
    return Changes(arguments=("-c", flag), summary=f"-c {flag}")


def _adapt_opencode(start: Start, bases: Bases) -> Changes:
    """Put the base URLs of opencode 1.18, for its Zen and for Google, into its configuration.

    ``OPENCODE_CONFIG_CONTENT`` is merged with its files. opencode takes a provider with a base URL
    for one that the user has, so Google's is set only if there is a key. opencode wants ``/v1`` in
    the variable for Anthropic.
    """
    environ = start.environ
    variables: dict[str, str | None] = {}
    if bases.find("ANTHROPIC_BASE_URL") is None:
        variables["ANTHROPIC_BASE_URL"] = f"{bases.root}/v1"
    urls = {_ZEN: zen} if (zen := bases.find(_ZEN)) else {}
    if environ.get("GOOGLE_GENERATIVE_AI_API_KEY") or environ.get("GEMINI_API_KEY"):
        urls["google"] = f"{bases.find('GOOGLE_GEMINI_BASE_URL') or bases.root}/v1beta"
    name = "OPENCODE_CONFIG_CONTENT"
    try:
        config = decode_json_object((environ.get(name) or "{}").encode())
    except ValueError:
        return Changes()  # opencode will say so
    if not urls:
        return Changes(variables=variables)
    for provider, url in urls.items():
        options: Any = config
        for member in ("provider", provider, "options"):
            options = options.setdefault(member, {}) if isinstance(options, dict) else None
        if isinstance(options, dict):
            options.setdefault("baseURL", url)
    variables[name] = msgspec.json.encode(config).decode()
    return Changes(variables=variables, summary=f"the base URLs of {', '.join(urls)} in {name}")


def _adapt_gemini(start: Start, bases: Bases) -> Changes:
    """Choose the key as the way to log in, because otherwise Gemini CLI 0.61 takes no base URL.

    The user's settings win over these defaults.
    """
    del bases
    name = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"
    if not start.environ.get("GEMINI_API_KEY") or start.environ.get(name):
        return Changes()
    path = start.folder / "gemini-defaults.json"
    login = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    try:
        path.write_bytes(msgspec.json.encode(login))
    except OSError:
        return Changes()
    return Changes(variables={name: str(path)}, summary=f"{name}={path}")


def _adapt_qwen(start: Start, bases: Bases) -> Changes:
    """Let qwen-code 0.24 send the same through us as to DashScope directly.

    It takes a base URL for DashScope's if its variable for proxies names the same one.
    To any other it sends no session, no marks for the cache and fewer headers.
    """
    name = "OPENAI_BASE_URL"
    base = start.environ.get(name, "")
    asked = urlsplit(start.set_urls.get(name, "")).hostname or ""
    if start.environ.get(_DASHSCOPE_PROXY) or base != bases.find(name):
        return Changes()
    if not (bases.is_elsewhere(name) and f".{asked}".endswith(_DASHSCOPES)):
        return Changes()
    return Changes(variables={_DASHSCOPE_PROXY: base}, summary=f"{_DASHSCOPE_PROXY}={base}")


def _adapt_ollama(start: Start, bases: Bases) -> Changes:
    """Leave ``OLLAMA_HOST`` alone for ``ollama serve``, which listens there."""
    del bases
    if "serve" not in start.arguments[:1]:
        return Changes()
    return Changes(variables={"OLLAMA_HOST": None}, summary="OLLAMA_HOST is left as it was")


TOOLS: Final[Mapping[str, Tool]] = {
    "claude": Tool(_adapt_claude),
    "codex": Tool(_adapt_codex, _find_codex_urls),
    "gemini": Tool(_adapt_gemini),
    "ollama": Tool(_adapt_ollama),
    "qwen": Tool(_adapt_qwen),
    "opencode": Tool(_adapt_opencode, lambda _: {_ZEN: "https://opencode.ai/zen/v1"}),
}

_ANY_OTHER = Tool(lambda *_: Changes())


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
