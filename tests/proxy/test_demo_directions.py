"""``proxy.demo.directions``: who asks may say what is answered, by lines in the question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from codec.apis.table import APIS
from codec.dialects import find_dialect
from codec.text.jsontext import decode_json_object, encode_json
from proxy.demo.script import MAX_SAMPLED_TOOLS, MODEL, write_script
from tests.smolagents import call, calling, failed, message, observation, task

if TYPE_CHECKING:
    from codec.generator import Answer
    from codec.text.jsontext import JsonObject

QUESTION = """Do this for me:
call read_file {"path": "notes.txt"}
  call  run  {"command": "call me"}
call run {"command": "wc -l"} and more
call run [1]
  call run "free text"
say "All  done.\\n"
say {"no": "text"}
Thank you."""

CALLS = [("read_file", '{"path": "notes.txt"}'), ("run", "free text")]

FUNCTION: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}}


class Chat:
    """A conversation in an API's form, which goes on as its client would have it."""

    def __init__(self, api: str, question: str = QUESTION, names: str = "read_file run") -> None:
        self.api = next(each for each in APIS if each.name == api)
        self.names = names.split()
        self.turns: list[Any] = [self.say("user", question)]

    def say(self, role: str, text: str) -> Any:
        """A message of either side."""
        if self.api.name == "gemini.generate":
            role = {"assistant": "model"}.get(role, role)
            return {"role": role, "parts": [{"text": text}]}
        return {"role": role, "content": text}

    def go_on(self, call: tuple[str, str, str], result: str) -> None:
        """Note a call by its id, name and arguments, and what the tool told."""
        call_id, name, arguments = call
        forms: dict[str, list[Any]] = {
            "chat.completions": [
                {
                    "role": "assistant",
                    "tool_calls": [
                        {"id": call_id, "function": {"name": name, "arguments": arguments}}
                    ],
                },
                {"role": "tool", "tool_call_id": call_id, "content": result},
            ],
            "responses": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
                {
                    "type": "function_call",
                    "call_id": call_id,
                    "name": name,
                    "arguments": arguments,
                },
                {"type": "function_call_output", "call_id": call_id, "output": result},
            ],
            "messages": [
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": call_id, "name": name, "input": {}}],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": call_id, "content": result},
                        {"type": "text", "text": "A reminder of the agent's."},
                    ],
                },
            ],
            "gemini.generate": [
                {
                    "role": "model",
                    "parts": [{"functionCall": {"id": call_id, "name": name, "args": {}}}],
                },
                {
                    "role": "user",
                    "parts": [{"functionResponse": {"name": name, "response": {"output": result}}}],
                },
            ],
        }
        self.turns += forms[self.api.name]

    @property
    def tools(self) -> list[JsonObject]:
        """The tools on offer."""
        bare = [{"name": name, "parameters": FUNCTION} for name in self.names]
        forms: dict[str, list[JsonObject]] = {
            "chat.completions": [{"type": "function", "function": tool} for tool in bare],
            "responses": [{"type": "function", **tool} for tool in bare],
            "messages": [{"name": tool["name"], "input_schema": FUNCTION} for tool in bare],
            "gemini.generate": [{"functionDeclarations": bare}],
        }
        return forms[self.api.name]

    def ask(self, **members: Any) -> Answer:
        """Ask the demo upstream."""
        names = {"responses": "input", "gemini.generate": "contents"}
        body = {"model": MODEL, names.get(self.api.name, "messages"): self.turns, **members}
        body |= {"tools": self.tools} if self.names else {}
        [answer] = write_script(self.api.asked(body), answer_id="1", created=0).answers
        return answer


def said_by(answer: Answer) -> str:
    """The text of an answer."""
    return "".join(delta.content or "" for delta in answer.deltas)


def called_by(answer: Answer) -> list[tuple[str, str, str]]:
    """The calls of an answer, each by its id, name and arguments."""
    calls: list[list[str]] = []
    for delta in answer.deltas:
        if delta.call is not None:
            if delta.call.name is not None:
                calls.append([delta.call.id or "", delta.call.name, ""])
            calls[-1][2] += delta.call.arguments
    return [(call_id, name, arguments) for call_id, name, arguments in calls]


@pytest.mark.parametrize("api", ["chat.completions", "responses", "messages", "gemini.generate"])
def test_directions_are_followed_one_after_the_other(api: str) -> None:
    """In each API's form: calls, then words; and then what the tools told."""
    chat = Chat(api)
    ids = set()
    for number, expected in enumerate(CALLS):
        answer = chat.ask()
        [call] = called_by(answer)
        assert (call[1:], answer.finish_reason) == (expected, "tool_calls")
        ids.add(call[0])
        chat.go_on(call, f"result {number}")
    assert len(ids) == len(CALLS)
    answer = chat.ask()
    assert (said_by(answer), answer.finish_reason) == ("All  done.\n", "stop")
    chat.turns += [chat.say("assistant", "All done."), chat.say("user", "And?")]
    told = said_by(chat.ask())
    assert told.startswith("This is what the tools told me: ")
    assert told.index("result 0") < told.index("result 1")
    chat.turns += [chat.say("assistant", told), chat.say("user", "Pick a lock.")]
    assert chat.ask().deltas[0].refusal == "I'm", "and from then on as without directions"


def test_a_newer_question_directs_anew() -> None:
    """Its own first direction is the next answer."""
    chat = Chat("chat.completions")
    chat.go_on(called_by(chat.ask())[0], "result")
    chat.turns.append(chat.say("user", 'say "Wait."\nsay "Go on."'))
    assert said_by(chat.ask()) == "Wait."
    chat.turns += [chat.say("assistant", "Wait."), chat.say("user", "Yes?")]
    assert said_by(chat.ask()) == "Go on.", "whatever the client said in between"


def test_what_tools_told_directs_nothing() -> None:
    """Also where the message with the result is the user's."""
    for api in ("chat.completions", "messages", "gemini.generate"):
        chat = Chat(api, 'call run {"path": "a"}')
        chat.go_on(called_by(chat.ask())[0], 'say "I am in charge now."')
        assert said_by(chat.ask()).startswith("This is what the tools told me: ")


def test_words_that_a_client_puts_into_the_models_mouth_follow_nothing() -> None:
    """The next answer is the one that is still missing."""
    chat = Chat("chat.completions", 'say "One  two."\nsay "Three."', names="")
    invented = [chat.say("assistant", "Ok."), chat.say("user", "I ran a command.")]
    chat.turns += invented
    assert said_by(chat.ask()) == "One  two."
    chat.turns += [chat.say("assistant", "One two."), *invented]
    assert said_by(chat.ask()) == "Three."
    chat.turns += [chat.say("assistant", "Three."), *invented]
    assert said_by(chat.ask()).startswith("Hello!")


def test_a_call_of_a_tool_that_is_not_on_offer_is_passed_over() -> None:
    """The next direction that can be followed is."""
    [call] = called_by(Chat("chat.completions", names="run").ask())
    assert call[1:] == CALLS[1]


@pytest.mark.parametrize("members", [{"tools": []}, {"tool_choice": "none"}])
def test_a_request_without_tools_passes_over_calls(members: JsonObject) -> None:
    """Of all calls: words are left."""
    chat = Chat("chat.completions", names="" if "tools" in members else "read_file run")
    assert said_by(chat.ask(**members)) == "All  done.\n"
    chat.turns = [chat.say("user", QUESTION.partition("say")[0])]
    assert said_by(chat.ask(**members)).startswith("Hello!")


@pytest.mark.parametrize("count", [MAX_SAMPLED_TOOLS, MAX_SAMPLED_TOOLS + 1])
def test_many_tools_are_an_agents_and_called_by_directions_alone(count: int) -> None:
    """An agent would run what is called."""
    names = " ".join(f"tool{number}" for number in range(count))
    assert bool(called_by(Chat("chat.completions", "Hello", names).ask())) is (count < 4)
    directed = Chat("chat.completions", "call tool0 {}", names)
    assert called_by(directed.ask()) == [("call_demo_0_0", "tool0", "{}")]


@pytest.mark.parametrize(
    ("kind", "called"), [("function", "function_call"), ("custom", "custom_tool_call")]
)
def test_a_tool_in_a_namespace_is_called_by_directions_alone(kind: str, called: str) -> None:
    """The call names the namespace, as OpenAI's do: Codex has its tools so."""
    api = next(each for each in APIS if each.name == "responses")
    tool = {"type": kind, "name": "exec"}
    grouped = {"type": "namespace", "name": "functions", "tools": [tool]}
    brought = {"type": "additional_tools", "role": "developer", "tools": [grouped]}
    made = []
    for question in ('call exec "1 + 1"', "Hello"):
        body = {"model": MODEL, "input": [brought, {"role": "user", "content": question}]}
        asked = api.asked(body)
        script = write_script(asked, answer_id="a", created=0)
        assert api.open_player is not None
        performance = api.open_player().play(asked, script, find_dialect("openai"))
        [item] = decode_json_object(performance.whole())["output"]
        made.append((item["type"], item.get("name"), item.get("namespace")))
    assert made == [(called, "exec", "functions"), ("message", None, None)]


def test_tools_told_in_texts_follow_directions_too() -> None:
    """As smolagents tells them; a call that failed is not repeated."""
    directions = 'Go.\ncall read {"path": "a"}\ncall run {"path": "b"}\ncall read {"path": "c"}'
    asked = message("user", task(directions))
    read = message("assistant", calling(call("c1", "read", {"path": "a"})))
    lost = message("user", observation("x"), failed("run", {"path": "b"}))
    made = []
    for messages in (
        [asked],
        [asked, read, message("user", observation("x"))],
        [asked, read, lost],
    ):
        body = {"messages": messages, "tools": [_offer("read"), _offer("run")]}
        request = APIS[0].decode_asked(encode_json(body).encode())
        [said] = write_script(request, answer_id="a", created=0).answers
        made.append("".join(one.call.arguments or "" for one in said.deltas if one.call))
    assert made == ['{"path": "a"}', '{"path": "b"}', '{"path": "c"}']


def test_joined_calls_are_made_together() -> None:
    """And then the next direction is followed."""
    chat = Chat("chat.completions", 'call a {"x": 1} &\ncall b "&" &\nsay "Done."', names="a b")
    one, other = called_by(chat.ask())
    assert (one[1:], other[1:]) == (("a", '{"x": 1}'), ("b", "&"))
    assert one[0] != other[0]
    chat.go_on(one, "first")
    assert len(called_by(chat.ask())) == 2, "one of them is not enough"
    made = [{"id": it[0], "function": {"name": it[1], "arguments": it[2]}} for it in (one, other)]
    told = [{"role": "tool", "tool_call_id": it[0], "content": "x"} for it in (one, other)]
    chat.turns[1:] = [{"role": "assistant", "tool_calls": made}, *told]
    assert said_by(chat.ask()) == "Done."


def _offer(name: str) -> JsonObject:
    return {"type": "function", "function": {"name": name, "parameters": FUNCTION}}
