"""The differences between the versions that somebody wants, each with its reason."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ("WANTED", "Wanted", "leave_out")


class Wanted(NamedTuple):
    """A difference that is wanted.

    Attributes:
        where: matches the beginning of the part's name and of what was asked, as they are printed.
        what: matches what is left out of both answers.
        why: for whoever reads the list.
    """

    where: str
    what: str
    why: str


_TEXT = r'"(?:[^"\\]|\\.)*"'

WANTED: tuple[Wanted, ...] = (
    Wanted(
        where=r".*: (?:command|show json|page|search|conversations)",
        what=rf'"(?:what|step|purpose|asked)": ?(?:{_TEXT}|null)(?:, ?)?',
        why="A call says what it is about: its words, else what is new in it; and what a helper"
        " call of an agent is for.",
    ),
    Wanted(
        where=r".*: command (?:stats|traces --runs) .*--json|.*: command stats --json"
        r"|.*: (?:page (?:stats|conversations)|search conversations|conversations)",
        what=r'"(?:cost_usd|priced|unpriced|tools|tool_errors)": ?(?:[-+.\de]+|null)(?:, ?)?',
        why="Sums are built and rounded in one place: dollars have twelve digits, the members"
        " another order, and how many calls have no price is one of them.",
    ),
    Wanted(
        where=r".*: command traces --limit",
        what=r"(?s).*",
        why="The table has a column for the API and says what each call is about. Its rows are"
        " compared as JSON.",
    ),
    Wanted(
        where=r".*: show [0-9a-f]{16}",
        what=r"(?m)^  (?:place|before|after|see also|run|limit)  .*\n"
        r"|^  [\d.,]+ (?:ms|s|min)\b.*\n|(?<=^  tool  )\S+  (?=\S+$)"
        r"|(?<=, turn \d) \((?:by|a|its|it) [^)]*\)$",
        why="A call begins with its time, tokens and cost, and says where it stands in its"
        " conversation and in its run, and what is left of rate limits. A result says of which"
        " tool it is, and a link says its rule in words.",
    ),
    Wanted(
        where=r".*: page calls/",
        what=r'"the verdict: [^"]*"(?:, ?)?',
        why="The verdict of a moderation stands where an answer does, and is no note.",
    ),
    Wanted(
        where=r".*: (?:page conversations|search conversations|conversations)",
        what=r'"runs": ?\d+, ?',
        why="Only runs of agents are counted as runs: a call in no run was one, too.",
    ),
    Wanted(
        where=r".*: page ",
        what=rf'"link": ?(?:{_TEXT}|null), ?'
        rf'|, ?"(?:digest|left_out)": ?(?:{_TEXT}|null)(?=[,}}])'
        r'|"limits": ?\[(?:\{[^}]*\}(?:, ?)?)*\], ?',
        why="The page says by which rule a call is linked, what is left of rate limits, and which"
        " picture is kept or why it is not.",
    ),
    Wanted(
        where=r".*: show [0-9a-f]{16}",
        what=r"(?m)\$(?=\d)| USD\b|(?:^ +\S.{1500,}|^ +\(\+ [\d,]+ characters: --full\))$",
        why="A dollar sign stands before amounts. A long line of a tool's result is cut.",
    ),
    Wanted(
        where=r".*: (?:command|show json|page calls/)",
        what=r'"rate_limits": ?\[(?:\{[^}]*\}(?:, ?)?)*\](?:, ?)?',
        why="A whole call says what is left of its provider's rate limits.",
    ),
    Wanted(
        where=r".*: page calls/",
        what=r'"stream": ?(?:\d+|null),? ?',
        why="A call says how many true bytes of its answer are kept.",
    ),
    Wanted(
        where=r".*: page stats\?",
        what=r'"duration_ms": ?\{[^}]*\}',
        why="Percentiles were estimates from buckets, 480 ms for calls that all took 392. They are"
        " ranks now, the same as those of `spantap stats`.",
    ),
    Wanted(
        where=r".*: page stats\?",
        what=r'"cost_usd": ?[-+.\de]+(?=, ?"priced")',
        why="SQLite adds up the dollars of a sum, and Python did: the last digit may differ. Sums"
        " of `spantap stats` are compared to the digit.",
    ),
    Wanted(
        where=r"damaged: page stats\?",
        what=r'"output_tokens_per_second": ?[-+.\de]+',
        why="A damaged time to the first output counts as `spantap stats` counts it.",
    ),
    Wanted(
        where=r".*: page calls/",
        what=r"this part is (?:no picture of|not a picture of type) png"
        r"|this call (?:goes on from none|continues no other one)"
        r"|(?:others went on from|another call continued) the same call before",
        why="Errors and a note of the page are in plainer words.",
    ),
    Wanted(
        where=r".*",
        what=r', ?\\*"headers\\*": ?\{(?:\\*"\w+\\*": ?(?:\{[^}]*\}|\d+)(?:, ?)?)*\}'
        r'|\\*"headers\\*": ?\{(?:\\*"\w+\\*": ?(?:\{[^}]*\}|\d+)(?:, ?)?)*\},? ?',
        why="Metadata has the fields of both heads that help, also as its last or only member.",
    ),
    Wanted(
        where=r".*",
        what=r',? ?\\*"(?:list_usd|saved_usd|cost_basis|cost_gap|cost_list_date)\\*":'
        r' ?(?:\\*"[^"\\]*\\*"|[-+.\de]+|null)',
        why="Costs say what they mean, how old their prices are, why they are unknown and what a"
        " cache saved.",
    ),
    Wanted(
        where=r".*: page (?:stats|calls/)",
        what=r', ?"(?:source|basis|list_date|list_is_old|unpriced)":'
        r' ?(?:"[^"\\]*"|true|false|null|\[[^\]]*\])',
        why="The page shows where a cost comes from, what it means, and why others are unknown.",
    ),
    Wanted(
        where=r".*: command",
        what=r"\$(?=\d)| USD\b| *\b(?:saved|unpriced)\b",
        why="A dollar sign stands before amounts. Sums say what was saved and how many calls have"
        " no price.",
    ),
    Wanted(
        where=r".*: show [0-9a-f]{16}",
        what=r"(?m)^  (?:parameters|metadata)  .*\n|^\n(?:parameters|metadata)\n(?:  .*\n)*",
        why="Parameters and metadata are shown one a line.",
    ),
    Wanted(
        where=r"damaged: command stats",
        what=r'"(?:duration|ttft)_ms": ?\{[^}]*\}'
        r"|(?m: +(?:(?:took |ttft )?p\d\d|\d+ min \d\d s|[\d.]+ m?s|-)(?= |$))",
        why="A damaged count of calls left these without percentiles: members of JSON, and cells of"
        " the table, which may be dashes and make their columns narrower.",
    ),
    Wanted(
        where=r".*: span",
        what=r'(?<="input\.value", "value": \{"stringValue": ")(?:Current Task: |<session>\\n)'
        r'|\\n\\nThis is the expected criteria for your final answer: .*?(?="\}\})'
        r'|\\n</session>\\n\\nWrite the title in .*?(?="\}\})',
        why="`input.value` has the user's words without what CrewAI and Claude Code put around"
        " them.",
    ),
    Wanted(
        where=r"damaged: page stats\?",
        what=r'\{"time": ?"19(?:69|70)-[^}]*\}',
        why="A damaged time shortly before 1970 counts in the step that begins with 1970.",
    ),
    Wanted(
        where=r".*: (?:command (?:stats|traces --runs)(?!.*--json)|show run)",
        what=r"(?m) {2,}[-$<\d.,*+ ]+$|[ *─]+",
        why="Columns have other widths. Sums say how many calls have no price in a column, not by"
        " a star; they are compared as JSON.",
    ),
)


def leave_out(place: str, told: str) -> str:
    """Leave out of an answer all that may differ."""
    for wanted in WANTED:
        if re.match(wanted.where, place):
            told = re.sub(wanted.what, "", told)
    return told
