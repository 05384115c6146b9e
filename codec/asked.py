"""What was asked, in one shape for all APIs: a request, its messages and its tools.

Requests and answers (:mod:`codec.said`) are the record of a call. Every API reads its wire into
these values (:mod:`codec.apis`). Spans, privacy, cost, metrics and the terminal read these values
and nothing else. Members of a request that most APIs share are read here, by the names that
OpenAI's APIs and their many copies give them; an API that has other names overrides the property.

The values are immutable, and nothing is invented: whatever did not come is ``None`` or empty (R6).
Nothing raises, whatever the JSON is: a member of the wrong type reads as absent. What belongs to
one API alone stays in ``body``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, overload
from urllib.parse import unquote

import msgspec

from codec.members import list_of, object_of, text_of
from codec.text.jsontext import JsonObject

if TYPE_CHECKING:
    from codec.parts import Message

__all__ = ("Asked", "ReadList", "Tool")

_DEPLOYMENT: Final = re.compile(r"/deployments/(?P<name>[^/]+)/")

_FREE_CHOICES: Final = frozenset({"auto", "none", "validated"})
"""Values of ``tool_choice`` that leave calls to the model, or forbid them."""

_ANY_CHOICES: Final = ("required", "any")
"""Values of ``tool_choice`` by which the model has to call any of the tools."""

_Item_co = TypeVar("_Item_co", covariant=True)


class Tool(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool on offer.

    Attributes:
        type: ``function``, ``custom``, or the provider's name for one of its tools; empty for a
            value that is not a tool.
        name: ``None`` if it has no name beside its type.
        namespace: the group that it is in, which calls of it name, too; ``None`` for most tools.
        parameters: the JSON schema of its arguments.
        value: the whole definition as sent.
    """

    type: str
    name: str | None = None
    namespace: str | None = None
    description: str | None = None
    parameters: Any = None
    value: Any = None

    @property
    def title(self) -> str | None:
        """The tool's name; its type, if it is one of the provider's tools, such as a web search."""
        own = self.type if self.type not in {"", "function"} else None
        return self.name if self.name is not None else own


class Asked(msgspec.Struct, frozen=True, gc=False):
    """A request, read from its JSON on demand.

    Each API derives a class from it, which knows the places of the values on its wire. ``body`` is
    the whole request as a JSON object, and read-only; ``path`` is the target's, without the query,
    because some APIs name the model there.
    """

    body: JsonObject
    path: str = ""

    content_members: ClassVar[frozenset[str]] = frozenset()
    """Members that are content, not parameters of the call."""

    tool_members: ClassVar[frozenset[str]] = frozenset()
    """Members that hold tools, or the names of some."""

    server_members: ClassVar[frozenset[str]] = frozenset()
    """Members that name further servers for the provider to call, and the credentials for them."""

    function_members: ClassVar[frozenset[str]] = frozenset()
    """Members of a tool that describe a function. Others may hold credentials of a server."""

    names_answers: ClassVar[bool] = False
    """Whether requests of the API may name an earlier answer, and continue it."""

    context_members: ClassVar[frozenset[str]] = frozenset(
        {
            *("conversation", "metadata", "previous_response_id", "prompt", "prompt_cache_key"),
            *("safety_identifier", "user"),
        }
    )
    """Members that name the caller, the session, and what the call refers to."""

    @property
    def model(self) -> str | None:
        """The model asked for: in the body, else the deployment in a path of Azure's.

        Azure serves many APIs under such paths.
        """
        model = self.body.get("model")
        if isinstance(model, str) and model:
            return model
        found = _DEPLOYMENT.search(self.path)
        return unquote(found["name"]) if found else None

    @property
    def stream(self) -> bool:
        """Whether a stream was asked for: by the JSON value ``true`` and nothing else."""
        return self.body.get("stream") is True

    @property
    def choice_count(self) -> int:
        """The number of answers asked for, at least one."""
        return 1

    @property
    def fault(self) -> str | None:
        """The reason why this is not a request of its API; ``None`` if it is one."""
        return None

    @property
    def parameters(self) -> Mapping[str, Any]:
        """All members but the content (``docs/contract/spans.md#invocation-parameters``)."""
        return {key: value for key, value in self.body.items() if key not in self.content_members}

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters by common names, values as sent.

        The common names are those of chat completions: ``max_tokens``, ``stop``,
        ``response_format``, ``reasoning_effort`` and so on.
        """
        return self.body

    @property
    def instruction_count(self) -> int:
        """The number of messages at the beginning that are instructions apart from the history."""
        return 0

    @property
    def labels(self) -> Mapping[str, Any]:
        """The client's own notes on the call, by name."""
        return object_of(self.body.get("metadata"))

    @property
    def user_id(self) -> str | None:
        """The end user for whom the call is made."""
        return text_of(self.body.get("user")) or text_of(self.body.get("safety_identifier"))

    @property
    def session_id(self) -> str | None:
        """The client's session, if the API's clients have a place for it."""
        return None

    @property
    def conversation_id(self) -> str | None:
        """The conversation at the provider that the request continues."""
        return None

    @property
    def prompt_id(self) -> str | None:
        """The prompt that the provider has stored, and that the request uses."""
        return None

    @property
    def references(self) -> Mapping[str, str]:
        """Other references of the request: a cache, an earlier response, a prompt's version."""
        key = text_of(self.body.get("prompt_cache_key"))
        return {"prompt_cache_key": key} if key is not None else {}

    @property
    def is_repeated(self) -> bool:
        """Whether the answer repeats the prompt (legacy ``echo``; vLLM has other words).

        Every API has this, because gateways accept more members than their API has.
        """
        return any(map(self.body.get, ("echo", "prompt_logprobs", "return_token_ids")))

    @property
    def wants_text(self) -> bool:
        """Whether the answer is a bare text, which is empty if there is nothing to say."""
        return False

    @property
    def forces_tool(self) -> bool:
        """Whether the answer has to call one certain tool, which is a way to ask for data.

        A request that leaves a choice among several tools is an agent's.
        """
        choice = self.body.get("tool_choice")
        if choice is None:
            return isinstance(self.body.get("function_call"), dict)
        among: Sequence[Any] = ()
        if isinstance(choice, dict):
            allowed = object_of(choice.get("allowed_tools")) or choice
            among = list_of(allowed.get("tools"))
            choice = allowed.get("mode") or choice.get("type")
        if choice in _ANY_CHOICES:
            return len(among or self.read_tools()) <= 1
        return isinstance(choice, str) and choice not in _FREE_CHOICES

    @property
    def input_audio(self) -> Mapping[str, Any]:
        """How much sound the client sent for it: ``bytes``, and ``seconds`` if they are known.

        Empty if the API does not count sound.
        """
        return {}

    def read_messages(self) -> Sequence[Message]:
        """Read the conversation; instructions, which come separately, are first."""
        return ()

    def read_texts(self) -> Sequence[Any]:
        """Read prompts, or texts to embed: texts, lists of token ids, or neither."""
        return ()

    def read_query(self) -> str | None:
        """Read the query by which documents are ranked."""
        return None

    def read_documents(self) -> Sequence[str | None]:
        """Read the documents that are to be ranked, each as text."""
        return ()

    @property
    def rank_limit(self) -> int | None:
        """The most documents that the ranking is to have."""
        return None

    def read_tools(self) -> Sequence[Tool]:
        """Read the tools on offer."""
        return ()

    @property
    def offered_names(self) -> frozenset[str] | None:
        """The names of the tools on offer; ``None`` if others may be called, too.

        A tool of the provider has no name but its type, and may call anything.
        """
        names = [tool.name for tool in self.read_tools() if tool.type]
        return None if None in names else frozenset(filter(None, names))


class ReadList(Sequence[_Item_co], Generic[_Item_co]):
    """A list of JSON values, each read when it is asked for.

    A request may hold a million messages, of which few are shown.
    """

    __slots__ = ("_read", "_values")

    def __init__(self, values: Sequence[Any], read: Callable[[Any], _Item_co]) -> None:
        self._values = values
        self._read = read

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[_Item_co]:
        return map(self._read, self._values)

    @overload
    def __getitem__(self, at: int) -> _Item_co: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[_Item_co]: ...
    def __getitem__(self, at: int | slice) -> _Item_co | Sequence[_Item_co]:
        if isinstance(at, slice):
            return ReadList(self._values[at], self._read)
        return self._read(self._values[at])
