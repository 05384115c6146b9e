"""Filters of calls, made up from the words that the command line and the page know."""

from __future__ import annotations

import random

__all__ = ("make_filters",)

_COUNT = 500
_SEED = 46
_MOST_WORDS = 4

_WORDS: dict[str, tuple[str, ...]] = {
    "status": ("ok", "error", "unset", "*"),
    "outcome": ("complete", "truncated", "error", "cancelled", "not_an_answer", "trunc*"),
    "state": ("pending", "kept", "delivered"),
    "model": ("gpt-*", "claude-*", "gemini-2.5-flash", "*mini*", "m-1", "gpt-4.1-nano", "nothing"),
    "name": ("ChatCompletion", "Message", "Response", "*Content*", "Chat"),
    "kind": ("llm", "tool", "agent", "embedding", "*"),
    "api": ("chat", "messages", "responses", "gemini", "ollama", "chat.completions", "embeddings"),
    "upstream": ("default", "groq", "*"),
    "client": ("codex", "openai*", "claude-code", "curl", "*"),
    "session": ("s-1", "s-2", "c-3", "conv-*", "*"),
    "user": ("u-7", "*", "nobody"),
    "conversation": ("1", "7", "100", "1000"),
    "run": ("1", "100", "163", "1206"),
    "launch": ("nothing", "*"),
    "tool": ("get_weather", "add", "*", "web_search"),
    "finish": ("stop", "length", "tool_calls", "end_turn", "*"),
    "error": ("*", "invalid_request_error", "stream_truncated", "4*"),
    "anomaly": ("*", "no_usage", "truncated"),
    "id": ("0", "a", "msg_", "chatcmpl", "req_"),
    "streamed": ("yes", "no"),
    "since": ("2h", "30d", "2026-01-31"),
    "until": ("1h", "2026-01-31"),
}
_NUMBERS: dict[str, tuple[str, ...]] = {
    "tokens": ("0", "100", "1k", "10000"),
    "in": ("0", "50", "500", "10k"),
    "out": ("0", "10", "100", "1000"),
    "cached": ("0", "100"),
    "cost": ("0", "0.0001", "0.05"),
    "dur": ("0s", "5s", "1m"),
    "ttft": ("0s", "1s"),
    "retry": ("0", "1"),
    "http": ("200", "400", "500"),
}
_TEXTS = ("weather", "hi", "Paris", '"not found"', "2 + 2", "Ruby", "zzzz", "ß", '"a b"')
_SIGNS = (">", ">=", "<", "<=", ":", "=")


def make_filters() -> list[str]:
    """The same filters each time, some of which are refused."""
    dice = random.Random(_SEED)
    singles = [f"{word}:{value}" for word, values in _WORDS.items() for value in values]
    while len(singles) < _COUNT:
        words = [_make_word(dice) for _ in range(dice.randint(1, _MOST_WORDS))]
        singles.append(" ".join(words))
    return singles


def _make_word(dice: random.Random) -> str:
    kind = dice.random()
    if kind < 0.2:
        return dice.choice(_TEXTS)
    if kind < 0.6:
        word = dice.choice(list(_NUMBERS))
        made = word + dice.choice(_SIGNS) + dice.choice(_NUMBERS[word])
    else:
        word = dice.choice(list(_WORDS))
        made = f"{word}:{dice.choice(_WORDS[word])}"
    return ("-" if dice.random() < 0.2 else "") + made
