"""``docs/page.md`` and the schema beside it: they tell of every path, and of no other."""

from __future__ import annotations

import re
from pathlib import Path

from jsonschema import Draft202012Validator  # type: ignore[import-untyped, unused-ignore]

from codec.text.jsontext import decode_json
from proxy.page.api.routes import ROUTES

DOCS = Path(__file__).parents[3] / "docs"
_ROW = re.compile(r"^\| `([a-zA-Z/]+)` \|.*\| (?:`(\w+)`)? ?\|$", re.MULTILINE)
_PARTS = {"{digest}": "DIGEST", "{id}": "ID", "{index}": "I", "{number}": "N"}


def test_every_path_is_in_the_table_with_its_schema() -> None:
    """A path that is new, or has gone, is so in the table; its schema is there."""
    section = (DOCS / "page.md").read_text().partition("## The API")[2]
    told = dict(_ROW.findall(section))
    paths = [path for path, _ in ROUTES]
    assert [*told] != []
    assert set(told) == {re.sub(r"\{\w+\}", lambda one: _PARTS[one[0]], path) for path in paths}
    schema = decode_json((DOCS / "page-api.schema.json").read_bytes())
    Draft202012Validator.check_schema(schema)
    assert {name for name in told.values() if name} <= schema["$defs"].keys()
