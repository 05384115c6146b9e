"""``docs/spans.md`` lists what is on a span."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codec.apis.table import APIS
from telemetry.observing.exchange import Outcome
from telemetry.semconv import (
    EXCEPTION_EVENT_NAME,
    FIRST_TOKEN_EVENT_NAME,
    MetadataMember,
)
from telemetry.spans.vocabulary import CONCEPTS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "spans.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")


def concept_table() -> str:
    """The table of :data:`telemetry.spans.vocabulary.CONCEPTS`, in Markdown."""
    rows = [
        (concept.meaning, _code(concept.openinference), _code(concept.opentelemetry))
        for concept in CONCEPTS
    ]
    heads = [("What", "OpenInference", "OpenTelemetry"), ("---", "---", "---")]
    return "\n".join("| " + " | ".join(row) + " |" for row in [*heads, *rows])


def _code(name: str | None) -> str:
    return "" if name is None else f"`{name}`"


def test_every_concept_is_listed() -> None:
    """Both vocabularies in one table, the code's own (``docs/contract/sources.md#n12``)."""
    listed = re.search(r"<!-- concepts -->\n(.*)\n<!-- /concepts -->", TEXT, re.DOTALL)
    assert listed is not None
    assert listed[1] == concept_table(), f"put this into {DOCUMENT.name}:\n{concept_table()}"


@pytest.mark.parametrize("member", MetadataMember)
def test_every_member_of_the_metadata_is_listed(member: MetadataMember) -> None:
    """In the section of the metadata, as the first thing of a row or beside it."""
    section = TEXT.partition("## `metadata`")[2].partition("\n## ")[0]
    names = [name for row in section.splitlines() for name in row[1:].split("|")[:1]]
    assert any(f"`{member.value}`" in name for name in names)


@pytest.mark.parametrize(
    "name",
    [
        *(outcome.value for outcome in Outcome),
        *(api.span_name for api in APIS),
        *(EXCEPTION_EVENT_NAME, FIRST_TOKEN_EVENT_NAME),
    ],
)
def test_names_and_outcomes_are_listed(name: str) -> None:
    """What a call comes to, how its span is named, and its events."""
    assert f"`{name}`" in TEXT
