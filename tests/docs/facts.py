"""What the documentation says of the facts of a call (:mod:`telemetry.facts`).

``python -m tests.docs.facts`` writes it, and ``--check`` says which lines differ.
"""

from __future__ import annotations

import json
import re
import sys
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from codec.text.jsontext import decode_json
from telemetry.fact import Fact, Form
from telemetry.facts import FACTS
from telemetry.finding.keys import describe_keys
from tests.docs.blocks import DOCS

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("find_differences", "write_pages")

_KEYS = re.compile(r"(?<=\n\| Word \| What it asks \|\n\|---\|---\|\n)(?:\|.*\n)+")
_COLUMNS = re.compile(r"(?<=\n\n)(?:`\w+`(?:,\s)?){8,}(?=\n\n)")
"""The columns of the table, those that say most first."""

_TYPES = {
    Form.COUNT: "integer",
    Form.DOLLARS: "number",
    Form.DURATION: "number",
    Form.FLAG: "boolean",
}

_ALWAYS: dict[str, dict[str, Any]] = {
    "seq": {"type": "integer", "minimum": 0},
    "span_id": {"type": "string"},
}
"""What is known of a damaged row, too."""


def find_differences() -> list[str]:
    """The lines that pages lack (``+``), and those that they have too many (``-``)."""
    return [
        line
        for name, text in _build_pages()
        for line in unified_diff(
            _read(name).splitlines(), text.splitlines(), name, n=0, lineterm=""
        )
    ]


def write_pages() -> None:
    """Write what pages lack."""
    for name, text in _build_pages():
        (DOCS / name).write_text(text, encoding="utf-8")


def _build_pages() -> Iterator[tuple[str, str]]:
    terminal = _read("terminal.md")
    for pattern, words in ((_KEYS, _write_keys()), (_COLUMNS, _write_columns())):
        terminal, count = pattern.subn(lambda _, words=words: words, terminal)  # type: ignore[misc]
        assert count == 1, pattern
    yield "terminal.md", terminal
    schema = decode_json(_read("page-api.schema.json").encode())
    members = {
        fact.json_name: _describe(fact)
        for fact in sorted(FACTS, key=lambda fact: fact.place)
        if fact.json_name is not None
    }
    row = schema["$defs"]["row"]
    row["properties"] = {"schema_version": row["properties"]["schema_version"], **members}
    row["required"] = [*row["properties"]]
    formats = schema["$defs"]["columns"]["properties"]["columns"]["items"]["properties"]["format"]
    formats["enum"] = [form.value for form in Form]
    yield "page-api.schema.json", json.dumps(schema, indent=2) + "\n"


def _read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def _write_keys() -> str:
    return "".join(f"| `{example}` | {meaning} |\n" for example, meaning in describe_keys())


def _write_columns() -> str:
    columns = sorted((fact.terminal for fact in FACTS if fact.terminal), key=lambda one: one.rank)
    return ", ".join(f"`{column.title}`" for column in columns)


def _describe(fact: Fact) -> dict[str, Any]:
    """The schema of a member."""
    if fact.json_name in _ALWAYS:
        described = dict(_ALWAYS[fact.json_name])
    elif fact.form is Form.ITEMS:
        described = {"type": "array", "items": {"type": "string"}}
    elif fact.form is Form.TIME:
        described = {"anyOf": [{"$ref": "#/$defs/time"}, {"type": "null"}]}
    else:
        described = {"type": [_TYPES.get(fact.form, "string"), "null"]}
    return {**described, "description": f"{fact.meaning[0].upper()}{fact.meaning[1:]}."}


if __name__ == "__main__":
    if "--check" not in sys.argv:
        write_pages()
    differences = find_differences()
    print("\n".join(differences))
    sys.exit(bool(differences))
