"""CrewAI: a skipper leaves a task to a pilot, then uses two tools at once; CrewAI's own events."""

from __future__ import annotations

from typing import Any

from crewai import LLM, Agent, Crew, Task
from crewai.events import crewai_event_bus
from crewai.events.types.agent_events import (
    AgentExecutionCompletedEvent,
    AgentExecutionStartedEvent,
)
from crewai.events.types.flow_events import FlowStartedEvent
from crewai.events.types.llm_events import LLMCallCompletedEvent, LLMCallStartedEvent
from crewai.events.types.task_events import TaskStartedEvent
from crewai.events.types.tool_usage_events import ToolUsageFinishedEvent, ToolUsageStartedEvent
from crewai.tools import tool

from tests.clients.runs.words import (
    BERTH,
    FIRST,
    LEAVING,
    PILOTS,
    Node,
    answer,
    call_that_said,
    get_weather,
    look_up_depth,
    look_up_tides,
    run_of,
    tool_of,
)

TASK = (
    f'{LEAVING}\ncall delegate_work_to_coworker {{"task": "{FIRST}", '
    '"context": "The boat draws two metres.", "coworker": "Pilot"}'
)
"""The demo upstream follows the last line."""

EVENTS = (
    AgentExecutionCompletedEvent,
    AgentExecutionStartedEvent,
    FlowStartedEvent,
    LLMCallCompletedEvent,
    LLMCallStartedEvent,
    TaskStartedEvent,
    ToolUsageFinishedEvent,
    ToolUsageStartedEvent,
)


class Collector:
    """Keeps what CrewAI tells; each event has the one that it is inside of."""

    def __init__(self) -> None:
        self._events: list[Any] = []
        for kind in EVENTS:
            crewai_event_bus.on(kind)(self._keep)

    def _keep(self, _: Any, event: Any) -> None:
        self._events.append(event)

    def list_runs(self) -> list[Node]:
        """The runs of tasks, in their order."""
        self._events.sort(key=lambda event: event.emission_sequence)
        return [node for one in self._find("task_started") for node in self._list_below(one)]

    def _find(self, kind: str) -> list[Any]:
        return [event for event in self._events if event.type == kind]

    def _end_of(self, start: Any) -> Any:
        [end] = [event for event in self._events if event.started_event_id == start.event_id]
        return end

    def _list_below(self, above: Any) -> list[Node]:
        below = [event for event in self._events if event.parent_event_id == above.event_id]
        return [node for event in below for node in self._read(event)]

    def _read(self, event: Any) -> list[Node]:
        below = self._list_below(event)
        match event.type:
            case "agent_execution_started":
                return [run_of(event.task.description, self._end_of(event).output, *below)]
            case "llm_call_started":
                said = self._end_of(event).response
                if isinstance(said, str):
                    return [call_that_said(said)]
                return [call_that_said(None, *(call["function"]["name"] for call in said))]
            case "tool_usage_started":
                output = self._end_of(event).output
                return [tool_of(event.tool_name, event.tool_args, output, *below)]
            case _:
                return below


async def ask(is_streamed: bool) -> list[Node]:
    """Two tasks of one crew."""
    collector = Collector()
    model = LLM(model="gpt-demo", provider="openai", stream=is_streamed)
    weather, depth, tides = map(tool, (get_weather, look_up_depth, look_up_tides))

    def build(role: str, words: str, *tools: Any, **options: Any) -> Any:
        return Agent(
            role=role, goal="Sail safely.", backstory=words, tools=[*tools], llm=model, **options
        )

    skipper = build("Skipper", "You are a skipper.", weather, tides, allow_delegation=True)
    pilot = build("Pilot", PILOTS, depth, tides)
    tasks = [
        Task(description=question, expected_output="What to know.", agent=skipper)
        for question in (TASK, BERTH)
    ]
    await Crew(agents=[skipper, pilot], tasks=tasks).kickoff_async()
    crewai_event_bus.flush()
    return collector.list_runs()


if __name__ == "__main__":
    answer(ask)
