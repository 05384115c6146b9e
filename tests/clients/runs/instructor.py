"""Instructor: data by a forced call of a tool, and by JSON, each with a retry; and in pieces.

Prints a list for each question, with the answer to each try: the tool, or none, and its data.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import instructor
import pydantic
import pydantic_core

from tests.clients.runs.words import BERTH, LEAVING, SECOND

DEEP = {"place": "Lisbon", "metres": "deep"}
RIGHT = {"place": "Lisbon", "metres": 11.5}


class Depth(pydantic.BaseModel):
    """How deep the water is."""

    place: str
    metres: float


def direct(question: str, tool: str | None, *answers: Any) -> list[dict[str, str]]:
    """A question with what is to be answered, one try after the other."""
    written = [json.dumps(one) for one in answers]
    lines = [f"call {tool} {it}" if tool else f"say {json.dumps(it)}" for it in written]
    return [{"role": "user", "content": "\n".join((question, *lines))}]


def note_answers(client: Any) -> list[Any]:
    """Instructor's own word of answers: the list that they are put into."""
    answers: list[Any] = []

    def note(completion: Any) -> None:
        message = completion.choices[0].message
        functions = [call.function for call in message.tool_calls or ()]
        answers.extend([one.name, pydantic_core.from_json(one.arguments)] for one in functions)
        if message.content:
            answers.append([None, pydantic_core.from_json(message.content)])

    client.on("completion:response", note)
    return answers


async def ask_plainly() -> list[Any]:
    """One question that is answered at once, two that take a second try."""
    done = []
    for question, mode, tool, tries in (
        (LEAVING, instructor.Mode.TOOLS, "Depth", (RIGHT,)),
        (BERTH, instructor.Mode.TOOLS, "Depth", (DEEP, RIGHT)),
        (SECOND, instructor.Mode.JSON, None, (DEEP, RIGHT)),
    ):
        client: Any = instructor.from_provider("openai/gpt-demo", mode=mode, async_client=True)
        answers = note_answers(client)
        messages = direct(question, tool, *tries)
        depth = await client.create(response_model=Depth, messages=messages, max_retries=2)
        assert depth.model_dump() == RIGHT
        done.append(answers)
    return done


async def ask_in_pieces() -> list[Any]:
    """Partial data, and a list whose members come one by one."""
    client: Any = instructor.from_provider("openai/gpt-demo", async_client=True)
    messages = direct(LEAVING, "PartialDepth", RIGHT)
    last: Any = None
    async for depth in client.create_partial(response_model=Depth, messages=messages):
        last = depth.model_dump()
    listed = {"tasks": [RIGHT, {"place": "Oslo", "metres": 2.5}]}
    messages = direct(BERTH, "IterableDepth", listed)
    came = [
        depth.model_dump()
        async for depth in client.create_iterable(response_model=Depth, messages=messages)
    ]
    return [[["PartialDepth", last]], [["IterableDepth", {"tasks": came}]]]


if __name__ == "__main__":
    ask = ask_in_pieces if sys.argv[1] == "streamed" else ask_plainly
    print(json.dumps(asyncio.run(ask())))
