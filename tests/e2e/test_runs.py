"""An agent's runs through the proxy, as a real Phoenix and a real Jaeger show them.

The agent's own log is what the trees are held to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import openai
import pytest

from tests.e2e import agent as agents
from tests.e2e.agent import Counted
from tests.e2e.browser import open_page
from tests.e2e.jaeger import PROGRAM
from tests.e2e.spantap import running_proxy
from tests.e2e.test_browser import take_picture
from tests.run_trees import Node, SeenSpan, build_trees

if TYPE_CHECKING:
    from pathlib import Path

    from codec.text.jsontext import JsonObject
    from tests.e2e.jaeger import Jaeger, ShownSpan
    from tests.e2e.phoenix import Phoenix, StoredSpan
    from tests.e2e.spantap import RunningProxy

pytestmark = pytest.mark.e2e

PROJECT = "runs"
BERTH = "And where is a berth?"
THANKS = "Thanks, that is all."
LONE = "What is the capital of Portugal?"
AFTER_ALL = "And of Spain?"
SPANS = 8 + 4 + 5 + 1 + 2 + 1
"""The first run with its sub-agent's, the second one with two, the thanks, and what goes on after
all with its mark."""

MICROSECOND_NS = 1_000
"""What Phoenix rounds times to."""

DEFAULTS = {"SPANTAP_VALUES": "text", "SPANTAP_CONVERSATIONS_AS": "runs"}


@dataclass(kw_only=True)
class Log:
    """What was done.

    Attributes:
        trees: of each question, and what came of it.
        tokens: of each.
        answers: of each.
    """

    trees: list[Node] = field(default_factory=list)
    tokens: list[tuple[int, int]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)


def sail(proxy: RunningProxy) -> Log:
    """Three questions to an agent, and two in a talk that begins as a lone one."""
    log = Log()
    with openai.OpenAI(api_key="demo", base_url=proxy.base_url, max_retries=0) as client:
        counted = Counted()
        skipper = agents.make_skipper(client, counted)
        other = agents.Agent(client, "You know the world.", {}, counted)
        for one, question, offered in (
            (skipper, agents.LEAVING, (agents.WEATHER, agents.ASK_PILOT)),
            (skipper, BERTH, (agents.ASK_FOR_BERTHS,)),
            (skipper, THANKS, ()),
            (other, LONE, ()),
            (other, AFTER_ALL, ()),
        ):
            before = counted.prompt, counted.completion
            answer, tree = one.ask(question, *offered)
            log.trees.append(tree)
            log.tokens.append((counted.prompt - before[0], counted.completion - before[1]))
            log.answers.append(answer)
    return log


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The same runs, told by the agent and by Phoenix."""

    log: Log
    spans: list[StoredSpan]
    project: JsonObject

    @property
    def trees(self) -> list[Node]:
        """What the spans tell, the mark left out."""
        return build_trees([see(span) for span in self.spans if not is_mark(span)])

    def root(self, number: int) -> StoredSpan:
        """The root of a question's trace."""
        roots = [span for span in self.spans if span.parent_id is None]
        return roots[number]

    def session(self, number: int) -> JsonObject:
        """The session of a question."""
        name = self.root(number).attributes["session.id"]
        [session] = [one for one in self.project["sessions"] if one["sessionId"] == name]
        return dict(session)


def see(span: StoredSpan) -> SeenSpan:
    return SeenSpan(span.trace_id, span.span_id, span.parent_id, span.start_ns, span.attributes)


def is_mark(span: StoredSpan) -> bool:
    return span.name == "conversation continued"


@pytest.fixture(scope="module")
def told(phoenix: Phoenix, upstream_port: int, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """With the settings as they are by default, but for the form of values."""
    with running_proxy(
        tmp_path_factory.mktemp(PROJECT),
        upstream_port=upstream_port,
        project=PROJECT,
        endpoint=phoenix.url,
        protocol="http/protobuf",
        environment=DEFAULTS,
    ) as proxy:
        log = sail(proxy)
        spans = phoenix.wait_for_spans(PROJECT, SPANS)
    return Told(log=log, spans=spans, project=phoenix.read_project(PROJECT))


def test_each_trace_is_what_the_agent_did(told: Told) -> None:
    """Runs with calls, tools with arguments and results, sub-agents below the tool that asked."""
    assert len(told.spans) == SPANS
    expected = told.log.trees
    seen = told.trees
    assert seen[:3] == expected[:3]
    assert [node.told for node in seen[3:4]] == [expected[3].told]
    assert seen[4:] == expected[4:]
    first, second = expected[:2]
    assert [node.kind for node in first.below] == ["LLM", "LLM", "TOOL", "TOOL"]
    [pilot] = [node for tool in first.below for node in tool.below]
    assert [node.kind for node in pilot.below] == ["LLM", "LLM", "TOOL", "TOOL"]
    assert [[one.kind for one in node.below] for node in second.below] == [[], [], ["LLM"], ["LLM"]]


def test_phoenix_knows_the_kinds(told: Told) -> None:
    """As in its own pages."""
    views = {view["spanId"]: view["spanKind"] for view in told.project["spans"]}
    for span in told.spans:
        assert views[span.span_id] == span.attributes["openinference.span.kind"].lower()
    assert sorted(views.values()).count("agent") == 3


def test_tokens_count_once(told: Told) -> None:
    """On the root of a run those of all its calls and its sub-agents', and so in the session."""
    views = {view["spanId"]: view for view in told.project["spans"]}
    for number, (prompt, completion) in enumerate(told.log.tokens):
        view = views[told.root(number).span_id]
        assert view["cumulativeTokenCountPrompt"] == prompt
        assert view["cumulativeTokenCountCompletion"] == completion
    for numbers in ((0, 1, 2), (3, 4)):
        usage = told.session(numbers[-1])["tokenUsage"]
        prompts, completions = zip(*(told.log.tokens[number] for number in numbers), strict=True)
        assert (usage["prompt"], usage["completion"]) == (sum(prompts), sum(completions))
    agents_spans = [
        span for span in told.spans if span.attributes["openinference.span.kind"] != "LLM"
    ]
    assert not [name for span in agents_spans for name in span.attributes if "token_count" in name]


def test_the_session_is_the_dialogue(told: Told) -> None:
    """Three traces; what was asked first, and what was answered last."""
    session = told.session(0)
    assert session["numTraces"] == 3
    traces = [edge["node"]["traceId"] for edge in session["traces"]["edges"]]
    assert sorted(traces) == sorted(told.root(number).trace_id for number in range(3))
    assert session["firstInput"]["value"] == agents.LEAVING
    assert session["lastOutput"]["value"] == told.log.answers[2]
    first = told.root(0)
    assert session["sessionId"] in {
        f"conv-{span.span_id}" for span in told.spans if span.parent_id == first.span_id
    }


def test_a_lone_question_that_goes_on_is_marked(told: Told) -> None:
    """A span at its end, below it, takes its trace into the session."""
    lone, after_all = told.root(3), told.root(4)
    [mark] = [span for span in told.spans if is_mark(span)]
    assert (mark.trace_id, mark.parent_id) == (lone.trace_id, lone.span_id)
    assert mark.end_ns == lone.end_ns
    assert mark.end_ns - mark.start_ns <= MICROSECOND_NS
    assert "session.id" not in lone.attributes
    session = after_all.attributes["session.id"]
    assert session == mark.attributes["session.id"] == f"conv-{lone.span_id}"
    assert told.session(4)["numTraces"] == 2


async def test_the_page_of_a_run_shows_its_tree(
    phoenix: Phoenix, told: Told, tmp_path: Path
) -> None:
    """The question, the tools, the sub-agent below the one that asked, and the answer."""
    url = f"{phoenix.url}/projects/{told.project['id']}/traces/{told.root(0).trace_id}"
    async with open_page(tmp_path) as page:
        await page.open(url)
        names = ("get_weather", "ask_pilot", "look_up_depth", "look_up_tides")
        text = await page.wait_for(*names, agents.LEAVING, told.log.answers[0])
        await take_picture(page, "run")
    assert not page.faults
    assert text.count("ChatCompletion") >= 4


async def test_the_page_of_the_session_shows_what_was_said(
    phoenix: Phoenix, told: Told, tmp_path: Path
) -> None:
    """Turn by turn, without the agent's own calls."""
    url = f"{phoenix.url}/projects/{told.project['id']}/sessions/{told.session(0)['id']}"
    async with open_page(tmp_path) as page:
        await page.open(url)
        text = await page.wait_for("Turn 03", agents.LEAVING, BERTH, THANKS)
        await take_picture(page, "run-session")
    assert not page.faults
    assert text.index(agents.LEAVING) < text.index(BERTH) < text.index(THANKS)


async def test_the_page_of_the_session_that_goes_on_shows_both_questions(
    phoenix: Phoenix, told: Told, tmp_path: Path
) -> None:
    """The lone one is there by its mark."""
    url = f"{phoenix.url}/projects/{told.project['id']}/sessions/{told.session(4)['id']}"
    async with open_page(tmp_path) as page:
        await page.open(url)
        text = await page.wait_for("Turn 02", LONE, AFTER_ALL)
        await take_picture(page, "run-marked")
    assert not page.faults
    assert text.index(LONE) < text.index(AFTER_ALL)


@pytest.mark.skipif(not PROGRAM.exists(), reason="Jaeger is not there: it needs Go >= 1.26")
def test_jaeger_has_each_trace_whole(jaeger: Jaeger, upstream_port: int, tmp_path: Path) -> None:
    """All spans of a run in one trace with one root, and nothing that it warns of."""
    with running_proxy(
        tmp_path,
        upstream_port=upstream_port,
        project=PROJECT,
        endpoint=jaeger.http_url,
        protocol="http/protobuf",
        environment=DEFAULTS | {"OTEL_SERVICE_NAME": PROJECT},
    ) as proxy:
        log = sail(proxy)
        found = jaeger.wait_for_spans(PROJECT, SPANS)
    roots = [span for span in found if find_parent(span) is None]
    assert len(roots) == len(log.trees)
    for root, tree in zip(roots, log.trees, strict=True):
        trace = jaeger.read_trace(root.trace_id)
        seen = [shown(span) for span in trace if span.operation != "conversation continued"]
        assert build_trees(seen) == [tree]
        assert not [warning for span in trace for warning in span.warnings]


def find_parent(span: ShownSpan) -> str | None:
    """Others that it refers to are links."""
    parents = [one.span_id for one in span.references if one.kind == "CHILD_OF"]
    assert len(parents) <= 1
    return parents[0] if parents else None


def shown(span: ShownSpan) -> SeenSpan:
    at_ns = span.start_us * 1_000
    return SeenSpan(span.trace_id, span.span_id, find_parent(span), at_ns, span.tags)
