"""``telemetry.observing.client_context``: sessions, users, tags and metadata."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.chat.request import ChatRequest
from codec.text.jsontext import encode_json
from telemetry.errors import ConfigurationError
from telemetry.frames.frame import asks_no_content
from telemetry.observing.client_context import (
    MAX_CONTEXT_CHARS,
    MAX_CONTEXT_ENTRIES,
    HeaderMap,
    add_body_context,
    add_launch,
    without_inputs,
)
from telemetry.observing.client_headers import (
    HEADERS_OF_AGENTS,
    SESSIONS_OF_AGENTS,
    THREADS_OF_AGENTS,
)
from telemetry.observing.exchange import ClientContext
from telemetry.privacy.credential_names import leave_out_credentials, looks_like_credential

DEFAULT = HeaderMap.build()
NOTHING = ClientContext()

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=10,
)


def read(*headers: tuple[str, str], added: dict[str, str] | None = None) -> ClientContext:
    """What headers say by the default map and what is added to it."""
    return HeaderMap.build(added).read(headers)


def add(body: dict[str, Any], context: ClientContext = NOTHING) -> ClientContext:
    """What a body says beside a context."""
    return add_body_context(ChatRequest(body), context)


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("x-spantap-session-id", ClientContext(session_id="v")),
        ("agent-session-id", ClientContext(session_id="v")),
        ("x-session-id", ClientContext(session_id="v")),
        ("helicone-session-id", ClientContext(session_id="v")),
        ("x-spantap-user-id", ClientContext(user_id="v")),
        ("helicone-user-id", ClientContext(user_id="v")),
        ("helicone-property-app", ClientContext(metadata={"app": "v"})),
        ("x-spantap-metadata-app", ClientContext(metadata={"app": "v"})),
        ("x-spantap-tags", ClientContext(tags=("v",))),
        ("x-spantap-prompt-id", ClientContext(attributes={"prompt.id": "v"})),
        (
            "x-spantap-prompt-template",
            ClientContext(attributes={"llm.prompt_template.template": "v"}),
        ),
    ],
)
def test_headers_of_the_common_tools_are_understood(header: str, wanted: ClientContext) -> None:
    """``docs/contract/spans.md#client-context``: the header map by default, and ours."""
    assert read((header, "v")) == wanted


def test_other_headers_are_not_looked_at() -> None:
    """Nothing is taken from what the map does not name, a bare prefix included."""
    headers = [("user-id", "v"), ("helicone-auth", "v"), ("helicone-property-", "v")]
    assert read(*headers) == NOTHING
    assert [DEFAULT.target(name) for name, _ in headers] == [None, None, None]


def test_the_settings_add_to_the_map_and_take_from_it() -> None:
    """Any header becomes any of the known attributes; ``ignore`` removes one."""
    added = {
        "X-Chat": "session.id",
        "x-tenant": "metadata.tenant",
        "x-label-*": "metadata.*",
        "x-session-id": "ignore",
        "helicone-property-*": "ignore",
    }
    headers = [
        ("x-chat", "c"),
        ("x-tenant", "t"),
        ("x-label-a", "1"),
        ("x-session-id", "s"),
        ("helicone-property-app", "p"),
    ]
    context = read(*headers, added=added)
    assert context == ClientContext(session_id="c", metadata={"tenant": "t", "a": "1"})


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "x-api-key", "api-key", "cookie", "x-auth-request-user", "x-token"),
        *("Ocp-Apim-Subscription-Key", "x-functions-key", "x-portkey-virtual-key", "x-jwt"),
    ],
)
def test_a_credential_cannot_be_mapped(name: str) -> None:
    """R7: a start with such a setting is refused, with the header's name."""
    with pytest.raises(ConfigurationError, match=rf"(?i){name}.*credential"):
        HeaderMap.build({name: "metadata.who"})


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("x chat", "session.id"),
        ("", "session.id"),
        ("x-chat", "session"),
        ("x-chat", "metadata."),
        ("x-chat", "metadata.*"),
        ("x-chat-*", "session.id"),
        ("x-*-id", "metadata.id"),
        ("*", "metadata.*"),
        ("x-chat", ""),
    ],
)
def test_a_mapping_that_cannot_be_followed_is_refused(name: str, target: str) -> None:
    """Neither a name that is no header nor a target that is no attribute."""
    with pytest.raises(ConfigurationError, match=r"^header '"):
        HeaderMap.build({name: target})


@pytest.mark.parametrize(
    "name", ["x-api-key", "x-goog-api-key", "x-auth-token", "x-amz-security-token", "x-csrf-token"]
)
def test_a_prefix_names_no_credential(name: str) -> None:
    """R7: whatever the beginning of names that the settings give."""
    assert read((name, "secret"), ("x-ok", "v"), added={"x-*": "metadata.*"}) == ClientContext(
        metadata={"ok": "v"}
    )


def test_what_is_ignored_is_not_found_by_a_prefix() -> None:
    """One header of many is taken out, whatever it is called."""
    added = {"Helicone-Property-Email": "ignore", "helicone-property-secret": "ignore"}
    headers = [("helicone-property-email", "e"), ("helicone-property-app", "a")]
    assert read(*headers, added=added) == ClientContext(metadata={"app": "a"})


def test_a_header_that_is_there_twice_is_refused() -> None:
    """In whatever case: nobody could say which one holds."""
    with pytest.raises(ConfigurationError, match="'x-user' is there twice"):
        HeaderMap.build({"X-User": "user.id", "x-user": "session.id"})


def test_a_list_of_tags_may_come_in_pieces() -> None:
    """RFC 9110 section 5.3: several fields of one name are one list."""
    context = read(("x-spantap-tags", "a, b"), ("x-spantap-tags", "c"))
    assert context.tags == ("a", "b", "c")


def test_what_is_named_first_wins() -> None:
    """Of two headers for one attribute, in whatever order they came; added ones before all."""
    session = [("helicone-session-id", "h"), ("x-spantap-session-id", "ours")]
    assert read(*session).session_id == read(*reversed(session)).session_id == "ours"
    assert read(*session, ("x-c", "c"), added={"x-c": "session.id"}).session_id == "c"


def test_a_header_wins_over_the_body() -> None:
    """For each of them alone."""
    said = ClientContext(user_id="header", metadata={"a": "header"}, tags=("header",))
    body = {"user": "body", "metadata": {"a": "body", "b": "body", "tags": ["body"]}}
    context = add(body, said)
    assert (context.user_id, context.tags) == ("header", ("header",))
    assert (context.metadata["a"], context.metadata["b"]) == ("header", "body")


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({"user": "u"}, ClientContext(user_id="u")),
        ({"safety_identifier": "s"}, ClientContext(user_id="s")),
        ({"user": "u", "safety_identifier": "s"}, ClientContext(user_id="u")),
        ({"prompt_cache_key": "k"}, ClientContext(metadata={"prompt_cache_key": "k"})),
        (
            {"metadata": {"session_id": "x", "n": 1}},
            ClientContext(session_id="x", metadata={"session_id": "x", "n": 1}),
        ),
        (
            {"metadata": {"user_id": "x"}},
            ClientContext(user_id="x", metadata={"user_id": "x"}),
        ),
        (
            {"metadata": {"tags": ["a", 1, "", "b"]}},
            ClientContext(tags=("a", "b"), metadata={"tags": ["a", 1, "", "b"]}),
        ),
        ({"user": "", "metadata": "text", "safety_identifier": 5}, NOTHING),
        ({"metadata": {"tags": "a"}}, ClientContext(metadata={"tags": "a"})),
        ({"model": "m"}, NOTHING),
    ],
)
def test_members_of_the_body(body: dict[str, Any], wanted: ClientContext) -> None:
    """Each says what it says, and a user is never made a session."""
    assert add(body) == wanted


def test_a_request_that_could_not_be_read_says_nothing() -> None:
    """The headers' words stay."""
    said = ClientContext(user_id="header")
    assert add_body_context(None, said) == said


def test_values_are_bounded_and_empty_ones_absent() -> None:
    """Ids and tags are cut, lists end, blanks are nothing."""
    long = "x" * (MAX_CONTEXT_CHARS + 1)
    context = read(
        ("x-session-id", long),
        ("x-spantap-user-id", "  "),
        ("x-spantap-tags", f"{long}, ,{',t' * 100}"),
        *((f"helicone-property-{number}", "v") for number in range(100)),
    )
    assert context.session_id == long[:-1]
    assert context.user_id is None
    assert len(context.tags) == len(context.metadata) == MAX_CONTEXT_ENTRIES
    assert context.tags[0] == long[:-1]
    assert len(add({"metadata": dict.fromkeys(map(str, range(100)))}).metadata) == 64


def test_a_metadata_header_holds_an_object() -> None:
    """Its members join the others; text that is no object is one member."""
    headers = ("x-spantap-metadata", '{"a": 1, "b": "é"}'.encode().decode("latin-1"))
    context = read(headers, ("x-spantap-metadata-a", "2"))
    assert context.metadata == {"a": "2", "b": "é"}
    assert read(("x-spantap-metadata", "[1]")).metadata == {"metadata": "[1]"}


def test_header_values_are_utf_8_or_latin_1() -> None:
    """RFC 9110 section 5.5 leaves the bytes above ASCII open; a frame has them as Latin-1."""
    assert read(("x-session-id", "é".encode().decode("latin-1"))).session_id == "é"
    assert read(("x-session-id", "é")).session_id == "é"


@pytest.mark.parametrize(
    ("value", "asked"), [("off", True), (" OFF ", True), ("no", True), ("", True), ("on", False)]
)
def test_content_is_turned_off_by_a_header(value: str, asked: bool) -> None:
    """By any value but ``on``: a slip must not record what was to stay unrecorded."""
    assert asks_no_content((("x-spantap-content", value),)) is asked
    assert not asks_no_content((("x-other", value),))


def test_a_prompt_template_is_an_input() -> None:
    """Where inputs are hidden its text and variables go, its version and ids stay."""
    headers = [
        ("x-spantap-prompt-template", "Tell {who}"),
        ("x-spantap-prompt-template-variables", '{"who": "me"}'),
        ("x-spantap-prompt-template-version", "3"),
        ("x-spantap-prompt-id", "p"),
        ("x-session-id", "s"),
    ]
    kept = without_inputs(read(*headers))
    assert kept == read(*headers[2:])
    assert without_inputs(kept) is kept


@given(st.dictionaries(st.sampled_from(["user", "metadata", "prompt_cache_key"]), json_values))
def test_no_body_makes_it_raise(body: dict[str, Any]) -> None:
    """Whatever JSON a client sends, the ids are texts."""
    context = add(body)
    assert isinstance(context.user_id, str | None)
    assert isinstance(context.session_id, str | None)


@given(st.lists(st.tuples(st.sampled_from([*DEFAULT.exact, "helicone-property-a"]), st.text())))
def test_no_header_makes_it_raise(headers: list[tuple[str, str]]) -> None:
    """Whatever text a header has."""
    assert isinstance(read(*headers), ClientContext)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('[{"api-key": 1}, {"a": 2}]', '[{}, {"a": 2}]'),
        ('{"a": {"pass": 1}}', '{"a": {}}'),
        ('{"author": "a", "co_authors": [], "authority": 1}', '{"author": "a", "co_authors": []}'),
        (f'{{"{"n" * 257}": 1, "{"n" * 256}": 2}}', f'{{"{"n" * 256}": 2}}'),
        ("word", "word"),
        ("7", "7"),
        ("{", "{"),
    ],
)
def test_a_text_is_told_without_what_its_names_say_is_a_credential(text: str, left: str) -> None:
    """JSON of any shape; all else as it is."""
    headers = (("x-spantap-user", "me"), ("x-spantap-metadata", text))
    assert leave_out_credentials(headers) == (headers[0], ("x-spantap-metadata", left))


def test_of_json_with_too_many_values_nothing_is_told() -> None:
    """To read it would keep the worker's other calls waiting (R2); a long text is one value."""
    text = '{"a": "%s"}' % ("[1, 2], " * 7_000)
    headers = (("x-a", "[" + "[]," * 20_000 + "0]"), ("x-b", text), ("x-c", '{"pass": 1}'))
    assert leave_out_credentials(headers) == (("x-a", ""), ("x-b", text), ("x-c", "{}"))


def test_what_is_read_of_json_is_bounded_for_all_headers_together() -> None:
    """As before: ten headers take no more than one."""
    text = encode_json({f"k{number}": 1 for number in range(600)})
    shown = leave_out_credentials((("x-a", text),) * 10)
    assert [left for _, left in shown] == [text] * 2 + [""] * 8


@pytest.mark.parametrize(
    ("tags", "label", "wanted"),
    [
        ((), "", ()),
        (("a",), "", ("a",)),
        ((), "app~~1", ("app",)),
        (("a", "app", "b"), "app~~1", ("app", "a", "b")),
        (("a",), "d~C3~ADa~201", ("día 1", "a")),
    ],
)
def test_the_name_of_a_launch_is_the_first_tag(
    tags: tuple[str, ...], label: str, wanted: tuple[str, ...]
) -> None:
    """Once, and beside the tags that a header or a body has."""
    assert add_launch(ClientContext(tags=tags), label) == ClientContext(tags=wanted)


def test_tags_with_a_launch_are_no_more_than_without() -> None:
    """The last goes."""
    tags = tuple(map(str, range(MAX_CONTEXT_ENTRIES)))
    assert add_launch(ClientContext(tags=tags), "app").tags == ("app", *tags[:-1])


@pytest.mark.parametrize("header", SESSIONS_OF_AGENTS)
def test_the_session_that_an_agent_names(header: str) -> None:
    """Each header alone; its value is cut as any id is."""
    assert read((header, "s")) == ClientContext(session_id="s")
    assert read((header, "s" * 2_000)).session_id == "s" * MAX_CONTEXT_CHARS


@pytest.mark.parametrize(("header", "member"), THREADS_OF_AGENTS.items())
def test_threads_and_sub_agents_are_metadata(header: str, member: str) -> None:
    """And never a session; their values are cut as ids are."""
    assert read((header, "t")) == ClientContext(metadata={member: "t"})
    assert read((header, "t" * 2_000)).metadata == {member: "t" * MAX_CONTEXT_CHARS}


def test_of_several_sessions_the_first_of_the_table_wins() -> None:
    """In whatever order they came: a name that anybody might send is behind one of an agent."""
    for place, first in enumerate(SESSIONS_OF_AGENTS):
        headers = [(name, name) for name in SESSIONS_OF_AGENTS[place:]]
        assert read(*headers).session_id == read(*reversed(headers)).session_id == first
    assert SESSIONS_OF_AGENTS.index("x-claude-code-session-id") < SESSIONS_OF_AGENTS.index(
        "session-id"
    )


@pytest.mark.parametrize(
    "asked", ["x-spantap-session-id", "x-session-id", "agent-session-id", "helicone-session-id"]
)
def test_a_session_that_was_asked_for_wins(asked: str) -> None:
    """Over that of every agent, and so does one of the settings, for its agent's header too."""
    headers = [(name, name) for name in SESSIONS_OF_AGENTS]
    assert read(*headers, (asked, "asked")).session_id == "asked"
    assert read(*headers, ("x-c", "c"), added={"x-c": "session.id"}).session_id == "c"
    assert read(*headers, added={"session_id": "session.id"}).session_id == "session_id"


def test_metadata_that_were_asked_for_win() -> None:
    """By a header of their own, by a whole object, and by the settings."""
    said = ("x-claude-code-agent-id", "a-1")
    for headers, added in (
        ([("x-spantap-metadata-agent", "mine")], None),
        ([("x-spantap-metadata", '{"agent": "mine"}')], None),
        ([("x-c", "mine")], {"x-c": "metadata.agent"}),
    ):
        assert read(said, *headers, added=added).metadata == {"agent": "mine"}


def test_what_agents_say_is_left_out_where_there_is_much_else() -> None:
    """What was asked for comes first."""
    asked = [(f"x-spantap-metadata-{n}", "v") for n in range(MAX_CONTEXT_ENTRIES)]
    metadata = read(("thread-id", "t"), *asked).metadata
    assert len(metadata) == MAX_CONTEXT_ENTRIES
    assert "thread" not in metadata


@pytest.mark.parametrize("header", HEADERS_OF_AGENTS)
def test_a_header_that_is_ignored_is_not_read(header: str) -> None:
    """A login of somebody's own may be in it; nor is it found by a prefix of the settings."""
    added = {header.title(): "ignore", "x-*": "metadata.*"}
    ignoring = HeaderMap.build(added)
    assert header.encode() not in ignoring.names
    assert ignoring.read(((header, "v"),)) == NOTHING
    assert header.encode() in DEFAULT.names


@pytest.mark.parametrize(
    "header", ["x-client-request-id", "vscode-sessionid", "prompt_cache_key", "user"]
)
def test_a_request_a_window_a_cache_and_a_user_are_no_session(header: str) -> None:
    """Nor are the members of the body that are called so."""
    assert read((header, "v")) == NOTHING
    assert add({header: "v"}).session_id is None


def test_no_header_of_the_default_map_looks_like_a_credential() -> None:
    """R7: what is read unasked was checked by its name."""
    names = [*DEFAULT.exact, *DEFAULT.prefixes]
    assert HEADERS_OF_AGENTS.keys() <= set(names)
    assert [name for name in names if looks_like_credential(name)] == []


def test_what_codex_says() -> None:
    """A sub-agent's call: the session is that of the tree, the rest is metadata."""
    headers = [
        ("session-id", "root"),
        ("thread-id", "child"),
        ("x-codex-parent-thread-id", "root"),
        ("x-openai-subagent", "review"),
        ("x-client-request-id", "child"),
    ]
    wanted = {"thread": "child", "parent_thread": "root", "subagent": "review"}
    assert read(*headers) == ClientContext(session_id="root", metadata=wanted)
    context = add({"prompt_cache_key": "k"}, read(*headers))
    assert context == ClientContext(session_id="root", metadata=wanted | {"prompt_cache_key": "k"})
