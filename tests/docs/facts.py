"""What is written down elsewhere of the facts of a call (:mod:`telemetry.facts`).

The pages of the documentation, and the type of a row for the check of the page's modules.
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
from tests.docs.blocks import DOCS, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("find_differences", "write_pages")

_TERMINAL = f"{DOCS.name}/terminal.md"
_SCHEMA = f"{DOCS.name}/page-api.schema.json"
_PAGE_TYPES = "tests/page_lint/types.d.ts"

_KEYS = re.compile(r"(?<=\n\| Word \| What it asks \|\n\|---\|---\|\n)(?:\|.*\n)+")
_COLUMNS = re.compile(r"(?<=\n\n)(?:`\w+`(?:,\s)?){8,}(?=\n\n)")
"""The columns of the table, those that say most first."""

_TYPES = {
    Form.COUNT: "integer",
    Form.DOLLARS: "number",
    Form.DURATION: "number",
    Form.FLAG: "boolean",
}

_ROW = re.compile(r"(?<=\ninterface Row \{\n)[^}]*(?=\}\n)")
"""The members of a row in TypeScript."""

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
        (ROOT / name).write_text(text, encoding="utf-8")


def _build_pages() -> Iterator[tuple[str, str]]:
    terminal = _read(_TERMINAL)
    for pattern, words in ((_KEYS, _write_keys()), (_COLUMNS, _write_columns())):
        terminal, count = pattern.subn(lambda _, words=words: words, terminal)  # type: ignore[misc]
        assert count == 1, pattern
    yield _TERMINAL, terminal
    schema = decode_json(_read(_SCHEMA).encode())
    facts = sorted(
        (fact for fact in FACTS if fact.json_name is not None), key=lambda fact: fact.place
    )
    members = {fact.json_name: _describe(fact) for fact in facts}
    row = schema["$defs"]["row"]
    row["properties"] = {"schema_version": row["properties"]["schema_version"], **members}
    row["required"] = [*row["properties"]]
    formats = schema["$defs"]["columns"]["properties"]["columns"]["items"]["properties"]["format"]
    formats["enum"] = [form.value for form in Form]
    yield _SCHEMA, json.dumps(schema, indent=2) + "\n"
    types, count = _ROW.subn("".join(map(_write_type, facts)), _read(_PAGE_TYPES))
    assert count == 1
    yield _PAGE_TYPES, types


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


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


def _write_type(fact: Fact) -> str:
    """Write a member in TypeScript.

    It may be null where not every row has it. A call that has ended and is not recorded yet has
    no number.
    """
    name = _TYPES.get(fact.form, "string")
    written = "number" if name == "integer" else name
    if fact.form is Form.ITEMS:
        written = "string[]"
    elif not fact.is_always or fact.make is not None or fact.name == "seq":
        written += " | null"
    return f"  {fact.json_name}: {written};\n"


if __name__ == "__main__":
    if "--check" not in sys.argv:
        write_pages()
    differences = find_differences()
    print("\n".join(differences))
    sys.exit(bool(differences))
