"""AG-UI: a graph behind the protocol that CopilotKit and other front ends speak, version 1.0.

A client sends new messages of the user, or answers to questions; never state, and no messages of
an assistant or a tool. It gets the graph's stream, and at the end of each run the whole thread:
texts, calls, components, questions.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, cast

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.types import Command, Interrupt as Question, StateSnapshot
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ..run.graph import LoopGraph
from ..state.errors import LoopwrightError
from ..state.questions import ANSWERED_BY, By, is_for_operator
from .ag_ui_events import ClientView, EventEncoder, ag, build_outcome
from .request_body import read_body

log = logging.getLogger(__name__)

Config = Callable[[Request, "ag.RunAgentInput"], RunnableConfig]
"""From a request to the config of its run. A `thread_id` in it wins over the client's."""

_CANCELLED: Final[Any] = ag.RunFinishedCancelledOutcome(type="cancelled")
_NOTHING: Final = object()
"""Nothing is run: the client only wants to see the thread."""


class Refused(LoopwrightError, ValueError):
    """An input that the protocol does not allow for the thread as it stands."""


def ag_ui_route(
    graph: LoopGraph[Any, Any, Any, Any],
    path: str = "/ag-ui",
    *,
    config: Config | None = None,
    **options: Any,
) -> Route:
    """A route that answers POST requests of an AG-UI client with the events of a run.

    Without authentication before it, everyone can run the graph on every thread; `config` must
    check whose thread it is.

    Args:
        graph: The graph; it needs a checkpointer.
        path: Where it is served.
        config: Gives the config of the run, such as `configurable.thread_id` and `user_id`.
        options: More arguments of `graph.astream`, such as `context`. What clients answer counts
            as a customer's, unless `answered_by="operator"` says that only operators get here.
    """

    async def run(request: Request) -> Response:
        try:
            body = await read_body(request, "AG-UI")
            given = await asyncio.to_thread(ag.RunAgentInput.model_validate_json, body)
        except HTTPException as refused:
            return JSONResponse({"error": refused.detail}, status_code=refused.status_code)
        except ValidationError as error:
            about = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3]]
            words = f"This is no RunAgentInput of AG-UI: {'; '.join(about)}."
            return JSONResponse({"error": words}, status_code=422)
        events = ag_ui_events(graph, given, config and config(request, given), **options)
        lines = (EventEncoder().encode(event) async for event in events)
        return StreamingResponse(lines, media_type="text/event-stream")

    return Route(path, run, methods=["POST"])


async def ag_ui_events(
    graph: LoopGraph[Any, Any, Any, Any],
    given: "ag.RunAgentInput",
    config: RunnableConfig | None = None,
    **options: Any,
) -> AsyncIterator["ag.BaseEvent"]:
    """Run a graph for an AG-UI client, and yield the events of the protocol in its order.

    Args:
        graph: The graph; it needs a checkpointer.
        given: What the client asks for.
        config: The config of the run; its `thread_id` wins over the client's.
        options: More arguments of `graph.astream`, such as `context`.
    """
    configurable = {"thread_id": given.thread_id, **(config or {}).get("configurable", {})}
    place: RunnableConfig = {**(config or {}), "configurable": configurable}
    view, result, outcome = ClientView(), None, _CANCELLED
    thread, run = given.thread_id, given.run_id
    yield ag.RunStartedEvent(thread_id=thread, run_id=run, protocol_version=ag.PROTOCOL_VERSION)
    options = {ANSWERED_BY: "customer", **options}
    by: By = options[ANSWERED_BY]
    try:
        async for event in _stream_events(graph, given, place, view, options):
            yield event
        after = await graph.aget_state(place, answered_by=by)
        for event in view.end_run(after):
            yield event
        result, outcome = after.values.get("outcome"), build_outcome(after)
    except GraphDrained:
        for event in view.close_open():
            yield event
    except Exception as error:
        if not isinstance(error, LoopwrightError):
            log.exception("A run for an AG-UI client failed.")
        yield _build_error_event(error)
        return
    yield ag.RunFinishedEvent(thread_id=thread, run_id=run, result=result, outcome=outcome)


async def _stream_events(
    graph: LoopGraph[Any, Any, Any, Any],
    given: "ag.RunAgentInput",
    place: RunnableConfig,
    view: ClientView,
    options: Mapping[str, Any],
) -> AsyncIterator["ag.BaseEvent"]:
    """The events of the graph while it runs."""
    before = await graph.aget_state(place, answered_by=options[ANSWERED_BY])
    view.load_state(before)
    wanted = _choose_input(given, before)
    if wanted is _NOTHING:
        return
    if isinstance(wanted, dict):
        view.add_request(wanted["messages"])
    modes = {"stream_mode": ["messages", "custom"], **options}
    async with aclosing(cast("Any", graph.astream(wanted, place, **modes))) as parts:
        async for mode, part in parts:
            for event in view.convert_part(mode, part):
                yield event


def _build_error_event(error: Exception) -> "ag.RunErrorEvent":
    """An error event; only messages that are meant for users are shown."""
    kind = type(error).__name__
    words = f"The run failed with {kind}; the log of the server says more."
    if isinstance(error, LoopwrightError):
        words = str(error)
    return ag.RunErrorEvent(message=words, code=kind)


def _choose_input(given: "ag.RunAgentInput", state: StateSnapshot) -> Any:
    """The input of the graph; `_NOTHING` if the client only wants to see the thread."""
    known = {message.id for message in state.values.get("messages", ())}
    new = [m for m in given.messages if isinstance(m, ag.UserMessage) and m.id not in known]
    new_input = {"messages": [_convert_user_message(message) for message in new]}
    questions, answers = (
        {question.id: question for question in state.interrupts},
        given.resume or [],
    )
    open_ = [question.id for question in state.interrupts if not is_for_operator(question.value)]
    if answers:
        _check_answers([entry.interrupt_id for entry in answers], questions, open_)
        if not new:
            resume = {
                a.interrupt_id: _convert_answer(questions[a.interrupt_id], a) for a in answers
            }
            return Command(resume=resume)
        if any(entry.status == "resolved" for entry in answers):
            words = (
                "A new message withdraws what was asked: send it with answers that are all "
                "cancelled, or send the answers alone."
            )
            raise Refused(words)
    elif open_ and new:
        words = (
            f"This thread waits for {len(open_)} answers: send them in `resume`, or send the "
            "message with `resume` entries whose status is cancelled."
        )
        raise Refused(words)
    if new:
        return new_input
    return None if state.next and not questions else _NOTHING


def _check_answers(
    answered: Sequence[str], questions: Collection[str], open_: Sequence[str]
) -> None:
    if len(answered) != len({*answered}):
        words = "`resume` answers a question more than once."
        raise Refused(words)
    unknown, left = sorted({*answered} - {*questions}), sorted({*open_} - {*answered})
    if unknown:
        words = f"`resume` answers {unknown}, which this thread does not ask (any more)."
        raise Refused(words)
    if left:
        words = f"`resume` must answer every open question; {left} have no answer."
        raise Refused(words)


def _convert_answer(question: Question, entry: "ag.ResumeEntry") -> Any:
    """An answer as the graphs take it; one to a tool's own question is passed on."""
    ours = isinstance(question.value, Mapping) and "action_requests" in question.value
    if entry.status == "cancelled":
        return {"type": "reject"} if ours else entry.payload
    return entry.payload


def _convert_user_message(message: "ag.UserMessage") -> HumanMessage:
    if isinstance(message.content, str):
        return HumanMessage(message.content, id=message.id)
    return HumanMessage([_convert_block(part) for part in message.content], id=message.id)


def _convert_block(part: Any) -> dict[str, Any]:
    """A part of a message as LangChain's block."""
    if part.type == "text":
        return {"type": "text", "text": part.text}
    kind = "file" if part.type == "document" else part.type
    about = {"mime_type": part.source.mime_type} if part.source.mime_type else {}
    where = {"data": "base64", "url": "url", "file": "file_id"}[part.source.type]
    return {"type": kind, where: part.source.value, **about}
