"""A request for content: contents, what comes before them, and tools."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import unquote

from codec.apis.gemini.content import read_content
from codec.apis.gemini.names import both, member_of, some_of
from codec.asked import Asked, ReadList, Tool
from codec.members import list_of, object_of, text_of
from codec.text.integers import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codec.parts import Message

__all__ = ("ContentRequest", "GeminiRequest")

_MODEL_IN_PATH: Final = re.compile(r"/(?:models|tunedModels|endpoints)/(?P<model>[^/]+):[A-Za-z]+$")

_PROMPT: Final = "user_prompt_id"

_STREAMS: Final = ":streamGenerateContent"

_OPTIONS: Final = {
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "maxOutputTokens": "max_tokens",
    "stopSequences": "stop",
    "candidateCount": "n",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}
"""Members of ``generationConfig``, and what chat completions call them."""

_DECLARATIONS: Final = both("functionDeclarations")

_CALLING: Final = "functionCallingConfig"


class GeminiRequest(Asked, frozen=True, gc=False):
    """A request of any of Gemini's APIs: the path names the model.

    In an envelope the body names it, and has the client's ids
    (``docs/contract/apis.md#code-assist``).
    """

    context_members: ClassVar[frozenset[str]] = Asked.context_members | {"session_id", _PROMPT}

    @property
    def model(self) -> str | None:
        """The model, which the path names."""
        if found := _MODEL_IN_PATH.search(self.path):
            return unquote(found["model"])
        model = text_of(self.body.get("model"))
        return None if model is None else model.removeprefix("models/")

    @property
    def session_id(self) -> str | None:
        """The session of gemini-cli."""
        return text_of(self.body.get("session_id"))

    @property
    def references(self) -> Mapping[str, str]:
        """The id that all calls have which came of one prompt of the user."""
        prompt = text_of(self.body.get(_PROMPT))
        return super().references if prompt is None else {**super().references, _PROMPT: prompt}


class ContentRequest(GeminiRequest, frozen=True, gc=False):
    """A request for content."""

    context_members: ClassVar[frozenset[str]] = GeminiRequest.context_members | {"labels"}
    content_members: ClassVar[frozenset[str]] = both("contents", "systemInstruction", "tools")
    tool_members: ClassVar[frozenset[str]] = both("tools", "toolConfig")
    function_members: ClassVar[frozenset[str]] = both("functionDeclarations")

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request for content; ``None`` if it is one."""
        if not isinstance(self.body.get("contents"), list | dict):
            return "contents is not a list"
        if not isinstance(self.body.get("tools"), list | dict | None):
            return "tools is not a list"
        return None

    @property
    def stream(self) -> bool:
        """Whether a stream was asked for, by the path."""
        return self.path.endswith(_STREAMS)

    @property
    def choice_count(self) -> int:
        """The number of candidates asked for."""
        return count_of(member_of(self._config, "candidateCount")) or 1

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters under the names that chat completions give them."""
        config = self._config
        named = {ours: member_of(config, theirs) for theirs, ours in _OPTIONS.items()}
        if self.stream:
            named["stream"] = True
        if member_of(config, "responseMimeType") == "application/json":
            named["response_format"] = {"type": "json_object"}
        modalities = member_of(config, "responseModalities")
        named["modalities"] = [one.lower() for one in list_of(modalities) if isinstance(one, str)]
        return {name: value for name, value in named.items() if value is not None}

    @property
    def forces_tool(self) -> bool:
        """Whether the mode of function calling is ``ANY``, and there is only one function."""
        config = object_of(member_of(object_of(member_of(self.body, "toolConfig")), _CALLING))
        if config.get("mode") != "ANY":
            return False
        return len(list_of(member_of(config, "allowedFunctionNames")) or self.read_tools()) <= 1

    @property
    def instruction_count(self) -> int:
        """1 if there is a system instruction, which is not part of the history."""
        return 1 if member_of(self.body, "systemInstruction") else 0

    @property
    def labels(self) -> Mapping[str, Any]:
        """The labels, by which Vertex AI bills."""
        return object_of(self.body.get("labels"))

    def read_messages(self) -> Sequence[Message]:
        """Read the system instruction, and then the contents in their order."""
        asked = [(content, "user") for content in some_of(self.body.get("contents"))]
        if self.instruction_count:
            instruction = member_of(self.body, "systemInstruction")
            if isinstance(instruction, dict):
                instruction = {**instruction, "role": "system"}  # some clients say user
            asked.insert(0, (instruction, "system"))
        return ReadList(asked, _read_content)

    def read_tools(self) -> Sequence[Tool]:
        """Read the tools on offer: each function, and then the provider's own."""
        tools = some_of(self.body.get("tools"))
        return [one for tool in tools for one in _read_tools(object_of(tool))]

    @property
    def _config(self) -> Mapping[str, Any]:
        return object_of(member_of(self.body, "generationConfig"))


def _read_content(asked: tuple[Any, str]) -> Message:
    return read_content(*asked)


def _read_tools(tool: Mapping[str, Any]) -> Iterator[Tool]:
    for declared in list_of(member_of(tool, "functionDeclarations")):
        function = object_of(declared)
        schema = member_of(function, "parametersJsonSchema")
        yield Tool(
            type="function",
            name=text_of(function.get("name")),
            description=text_of(function.get("description")),
            parameters=function.get("parameters") if schema is None else schema,
            value=declared,
        )
    for name, value in tool.items():
        if name not in _DECLARATIONS and value is not None:
            yield Tool(type=name, value={name: value})
