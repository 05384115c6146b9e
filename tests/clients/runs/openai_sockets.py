"""The same agents of the OpenAI Agents SDK, whose calls go over a WebSocket."""

from __future__ import annotations

import agents

from tests.clients.runs.openai_sdk import ask
from tests.clients.runs.words import answer

agents.set_default_openai_responses_transport("websocket")
answer(ask)
