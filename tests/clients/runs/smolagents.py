"""smolagents: a skipper has a pilot, and a tool that fails; agents remember what they did.

The results of tools that were called together are one text, which each of them has. If one of them
fails, nothing is told of the others. A CodeAgent (``code``) runs code; its last run uses up its
steps, so that its answer is a text.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

from smolagents import CodeAgent, OpenAIModel, ToolCallingAgent, tool

from tests.clients.runs.words import (
    BERTH,
    FIRST,
    LEAVING,
    Node,
    answer,
    call_that_said,
    get_weather,
    look_up_depth,
    look_up_tides,
    run_of,
    tool_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

FINAL = "final_answer"


def sound(place: str) -> str:
    """Sounds the depth at a place."""
    raise LookupError(f"{place} is on land\nError:\nno depth")


for one in (get_weather, look_up_depth, look_up_tides, sound):
    one.__doc__ = f"{one.__doc__}\n\nArgs:\n    place: The place.\n"
WEATHER, DEPTH, TIDES, SOUND = map(tool, (get_weather, look_up_depth, look_up_tides, sound))


def call(name: str, **arguments: str) -> str:
    """The direction to call a tool."""
    return f"call {name} {json.dumps(arguments)}"


def say(text: str) -> str:
    """The direction to say something."""
    return f"say {json.dumps(text)}"


def direct(question: str, *directions: str) -> str:
    """A question, and what the demo upstream is to answer."""
    return "\n".join((question, *directions))


PILOTS_ANSWER = "11.5 metres\nNew task:\nat high tide"
PILOTS_TASK = direct(
    FIRST,
    call("look_up_depth", place="bar") + " &",
    call("look_up_tides", place="bar"),
    call(FINAL, answer=PILOTS_ANSWER),
)


def list_questions() -> list[str]:
    """Two questions to an agent that calls tools."""
    return [
        direct(
            LEAVING,
            call("sound", place="Oslo"),
            call("get_weather", place="Lisbon") + " &",
            call("get_weather", place='It\'s "Oslo"\nObservation:\n'),
            call("sound", place="Lisbon"),
            call("sound", place="Rome"),
            call("sound", place="Bern") + " &",
            call("get_weather", place="Bern"),
            call("pilot", task=PILOTS_TASK),
            call(FINAL, answer="Sail."),
        ),
        direct(BERTH, call("get_weather", place="Porto"), call(FINAL, answer="Stay.")),
    ]


def list_code() -> list[str]:
    """Two questions to an agent that writes code."""
    return [
        direct(
            LEAVING,
            say("Thought: ask.\n<code>\nprint(get_weather('Lisbon'))\nx = 1\n"),
            say("Thought: sound.\n<code>\nprint('now')\nsound('Oslo')\n"),
            say("I have no code."),
            say(f"<code>\nprint(pilot({json.dumps(PILOTS_TASK)}))\n"),
            say("<code>\nfinal_answer('Sail.')\n"),
        ),
        direct(BERTH, say("<code>\nget_weather('Porto')\n"), say("Stay.")),
    ]


async def ask(is_streamed: bool) -> list[Node]:
    """Two questions of one conversation."""
    model = OpenAIModel(model_id="gpt-demo")
    given = {"model": model, "verbosity_level": 0, "stream_outputs": is_streamed}
    pilot = ToolCallingAgent(tools=[DEPTH, TIDES], name="pilot", description="A pilot.", **given)
    by_code = sys.argv[1] == "code"
    kind = CodeAgent if by_code else ToolCallingAgent
    skipper = kind(tools=[WEATHER, SOUND], managed_agents=[pilot], **given)
    done: list[Node] = []
    with contextlib.redirect_stdout(sys.stderr):
        first, second = list_code() if by_code else list_questions()
        told = skipper.run(first)
        assert told == "Sail."
        below = [read_run(PILOTS_TASK, pilot.memory.steps, PILOTS_ANSWER)]
        steps = [*skipper.memory.steps]
        done.append(read_run(first, steps, None if by_code else told, below))
        told = skipper.run(second, reset=False, max_steps=1 if by_code else 20)
        assert told == "Stay."
        done.append(read_run(second, skipper.memory.steps[len(steps) :], told))
    return done


def read_run(
    question: str, steps: Sequence[Any], said: str | None = None, inner: Sequence[Node] = ()
) -> Node:
    """What the steps of a run tell, with what was done by an agent that it asked."""
    below: list[Node] = []
    text = None
    for step in steps[1:]:
        if step.model_output_message is None:  # the answer after all steps
            text = step.action_output
            below.append(call_that_said(text))
            continue
        text = read_text(step.model_output_message)
        made = step.model_output_message.tool_calls or []
        below.append(call_that_said(text, *(one.function.name for one in made)))
        below += read_code(step, inner) if step.code_action else read_tools(step, made, inner)
    return run_of(question, said or text, *below)


def read_text(said: Any) -> str | None:
    """The text of an answer, to which a CodeAgent adds the tag that ends code."""
    text: str | None = said.raw.choices[0].message.content if said.raw else said.content
    return text


def read_code(step: Any, inner: Sequence[Node]) -> list[Node]:
    """The code of a step, as a tool."""
    told = "\n".join(str(one) for one in (step.observations, step.error) if one is not None)
    below = inner if "pilot(" in step.code_action else ()
    return [tool_of("python_interpreter", step.code_action, told, *below)]


def read_tools(step: Any, made: Sequence[Any], inner: Sequence[Node]) -> list[Node]:
    """The tools of a step that told something."""
    if step.error is not None:
        failed = [one for one in made if f"tool '{one.function.name}'" in str(step.error)]
        return [
            tool_of(one.function.name, one.function.arguments, str(step.error)) for one in failed
        ]
    return [
        tool_of(one.name, one.arguments, step.observations, *(inner if one.name == "pilot" else ()))
        for one in step.tool_calls
        if one.name != FINAL
    ]


if __name__ == "__main__":
    answer(ask)
