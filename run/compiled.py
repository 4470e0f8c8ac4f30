"""A compiled graph as its doors find it: its builder, its saver, what it takes and gives.

Its settings are a form: those its nodes read, in groups, with its roles as choices. `Context` is
one for all graphs; what a client is shown of it is this view.
"""

from collections.abc import Collection, Mapping
from copy import deepcopy
from functools import cache
from typing import Any, Final, Self, cast, get_args

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer, StateSnapshot
from langgraph.typing import ContextT, InputT, OutputT, StateT
from pydantic import TypeAdapter

from ..state.context import Context
from ..state.errors import SettingsError
from ..state.questions import ANSWERED_BY, By, hide_operator_questions
from ..state.roles import ROLES, TIERS, roles_of
from ..store.base import langgraph_keys as keys
from ..store.checkpoints.async_adapters import (
    ensure_async_saver,
    ensure_async_store,
    wrap_parent_stores,
)
from ..stream.customer_view import show_chunk, show_state
from .builder import CheckedStateGraph
from .client_access import find_reader, is_operator, is_server_call, leave_panel_out
from .run import Run

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Models": ("model", "models", "tiers", "fallback_models", "observe"),
    "Told to models": (
        "system_context", "business_context", "language", "resource_id", "task_id",
    ),
    "Permissions": ("interactive", "review_plan", "drafts", "policy", "question_expires_in"),
    "Limits": (
        "max_planning_rounds", "max_executor_rounds", "max_verify_cycles", "max_iterations",
        "max_turns", "max_agent_depth", "max_tasks", "max_steps", "max_recoveries",
        "max_parallel_tasks", "max_parallel_models", "max_model_calls", "max_tool_calls",
        "max_tokens", "max_seconds", "max_cost", "max_output_tokens", "prices", "context_budget",
        "context_target",
    ),
    "Routing": ("route_share",),
    "Loops": ("loop_repeats", "loop_phrases", "loop_check_after", "loop_confidence"),
    "Time": ("model_deadline", "model_retries", "tool_deadline", "startup_timeout"),
    "Tools": ("result_cap", "shown_tools", "dedupe", "dedupe_seconds", "tool_context"),
}  # fmt: skip
"""Every setting, in the order of a form."""

READ_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "observe": ("observation",),
    "review_plan": ("planner", "review_plan", "check_flow", "review_flow"),
    "max_planning_rounds": ("planner",),
    "max_executor_rounds": ("work",),
    "max_verify_cycles": ("verifier",),
    "max_iterations": ("thought",),
    "max_turns": ("check_limits", "act"),
    "drafts": ("act",),
    "context_target": ("compress",),
    "max_agent_depth": ("delegate",),
    "max_tasks": ("planner", "review_plan"),
    "max_steps": ("plan_flow", "check_flow"),
    "max_recoveries": ("recover", "answer_flow"),
    "max_parallel_tasks": ("work", "run_flow", "delegate"),
    "route_share": ("react", "prompt_flow", "task_agent"),
    "loop_repeats": ("work", "thought", "check_loop"),
    "loop_phrases": ("work", "thought", "check_loop"),
    "loop_check_after": ("check_loop",),
    "loop_confidence": ("check_loop",),
}
"""The nodes that a setting is for; any other setting is for every graph."""


class Compiled(CompiledStateGraph[StateT, ContextT, InputT, OutputT]):
    """A graph whose schemas are those of its state's types.

    LangGraph makes them of the channels, and a channel of deltas knows of a list and no more.
    """

    @property
    def own_builder(self) -> CheckedStateGraph[StateT, ContextT, InputT, OutputT]:
        """The builder, which knows what surrounds the runs."""
        return cast("CheckedStateGraph[StateT, ContextT, InputT, OutputT]", self.builder)

    @property
    def checkpointer(self) -> Checkpointer:
        """The saver, with async methods whatever was assigned."""
        return cast("Checkpointer", vars(self).get("checkpointer"))

    @checkpointer.setter
    def checkpointer(self, saver: Checkpointer) -> None:
        # Under its own name, because LangGraph's copy() reads the instance's __dict__.
        vars(self)["checkpointer"] = ensure_async_saver(saver)

    @property
    def store(self) -> BaseStore | None:
        """The store, with async methods whatever was assigned."""
        return cast("BaseStore | None", vars(self).get("store"))

    @store.setter
    def store(self, store: BaseStore | None) -> None:
        vars(self)["store"] = ensure_async_store(store)

    def copy(self, update: dict[str, Any] | None = None) -> Self:
        """A twin with some attributes replaced."""
        twin = super().copy(update)
        # The constructor drops what compile() sets after it (output mappers, the allowlist).
        kept = {name: value for name, value in vars(self).items() if name not in (update or {})}
        vars(twin).update(kept)
        return twin

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:  # noqa: ARG002 - LangGraph's signature
        """What a caller gives."""
        return TypeAdapter(self.builder.input_schema).json_schema()

    def get_output_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:  # noqa: ARG002 - LangGraph's signature
        """What a caller gets."""
        return TypeAdapter(self.builder.output_schema).json_schema()

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """The settings that this graph reads, as a form."""
        if self.context_schema is not Context:
            return super().get_context_jsonschema()
        inside = self.own_builder.inside.items()
        nodes = {(node, node) for node in self.builder.nodes}
        nodes |= {(node, name) for name, one in inside for node in one.builder.nodes}
        return build_settings_form(nodes, self.own_builder.graph)

    def _is_client(self, configurable: Mapping[str, Any]) -> bool:
        """Whether a client calls, who is not the operator."""
        saved_by = type(self.checkpointer).__module__
        served = self.own_builder.served or saved_by.startswith(keys.SERVER_PACKAGES)
        return served or is_server_call(configurable)

    def _make_run(self, input: Any, config: RunnableConfig | None, options: dict[str, Any]) -> Run:
        """A run as it is asked for, with its saver: a parent's before the own one, or none."""
        config = self._adapt_config(config)
        configurable = self._merge_configurable(config)
        saver = configurable.get(keys.SAVER, self.checkpointer)
        if self.checkpointer is False or not isinstance(saver, BaseCheckpointSaver):
            saver = None
        if (by := options.get(ANSWERED_BY, "operator")) not in get_args(By):
            msg = f"{ANSWERED_BY}={by!r} is nobody who answers: give 'customer' or 'operator'."
            raise SettingsError(msg)
        client = self._is_client(configurable) and not is_operator(configurable)
        customer = client or by == "customer"
        rest = {key: value for key, value in options.items() if key != ANSWERED_BY}
        return Run(input, config, rest, configurable, saver, customer)

    def _is_for_customer(self, run: Run) -> bool:
        """Whether a front end of a customer asks, which sees what was said and no more."""
        return self.own_builder.for_customers and run.customer and not run.is_nested

    def _show_chunk(self, run: Run, chunk: Any, options: Mapping[str, Any]) -> Any:
        """A chunk of a run's stream as its caller gets it; None where they do not."""
        if self._is_for_customer(run):
            shown = show_chunk(chunk, options)
        else:
            hides = run.customer and not run.is_nested
            shown = hide_operator_questions(chunk) if hides else chunk
        return leave_panel_out(shown) if self._is_client(run.configurable) else shown

    def _show_state(self, run: Run, state: StateSnapshot) -> StateSnapshot:
        """A state as its caller gets it."""
        run = find_reader(run)
        if self._is_for_customer(run):
            state = show_state(state)
        elif run.customer and not run.is_nested:
            state = hide_operator_questions(state)
        return leave_panel_out(state) if self._is_client(run.configurable) else state

    def astream_events(
        self, input: Any, config: RunnableConfig | None = None, **options: Any
    ) -> Any:
        """The events of LangChain; see LangGraph. They tell all, so no customer gets them."""
        run = self._make_run(input, config, options)
        if options.get("version") != "v3" and self._is_for_customer(run):
            msg = (
                "A customer's front end gets no `events` of this graph: stream `messages`,"
                " `values`, `updates` or `custom`."
            )
            raise SettingsError(msg)
        return super().astream_events(input, config, **options)

    def _merge_configurable(self, config: RunnableConfig | None) -> Mapping[str, Any]:
        """What a run sees as `configurable`, by LangGraph's rules.

        A config that names a thread or checkpoint stands alone; any other refines that of its node.
        """
        given = (config or {}).get("configurable", {})
        explicit = {**(self.config or {}).get("configurable", {}), **given}
        if any(explicit.get(key) for key in keys.COORDINATES):
            return explicit
        ambient = var_child_runnable_config.get() or {}
        return {**ambient.get("configurable", {}), **explicit}

    def _adapt_config(self, config: RunnableConfig | None) -> RunnableConfig:
        """A caller's config, with async methods for what a sync parent graph passes down."""
        return wrap_parent_stores(config or {}, self._merge_configurable(config))


Graph = Compiled[Any, Any, Any, Any]
"""Whichever one."""


def build_settings_form(nodes: Collection[tuple[str, str]], graph: str) -> dict[str, Any]:
    """The JSON schema of the settings that the nodes of a graph read; a server asks at each run.

    `nodes` are those of graphs inside as well, each with the node of this graph that it is in.
    """
    return deepcopy(_build_form(frozenset(nodes), graph))


@cache
def _build_form(nodes: frozenset[tuple[str, str]], graph: str) -> dict[str, Any]:
    whole = Context.model_json_schema()
    shown: dict[str, Any] = {}
    for group, names in GROUPS.items():
        for name in names:
            readers = READ_BY.get(name)
            here = sorted({at for node, at in nodes if readers is None or node in readers})
            if here:
                place = {"x-group": group, "x-order": len(shown)}
                at = {"langgraph_nodes": here} if name in READ_BY else {}
                shown[name] = {**whole["properties"][name], **place, **at}
    for name, choices in _list_choices(roles_of(graph) or ROLES).items():
        shown[name] |= {"properties": choices, "additionalProperties": False}
    return {**whole, "properties": shown}


def _list_choices(roles: Collection[str]) -> dict[str, dict[str, Any]]:
    """What may be said of each role, by the settings that say it."""
    text = {
        role: {"type": "string", "title": role, "description": ROLES[role].label} for role in roles
    }
    of_tiers = {
        tier: {"type": "string", "title": tier, "description": f"each {tier} role"}
        for tier in TIERS
    }
    tiers = {role: {**about, "enum": [*TIERS]} for role, about in text.items()}
    return {"models": text | of_tiers, "tiers": tiers, "business_context": text}
