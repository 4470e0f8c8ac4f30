"""Agents for LangGraph that survive a crash, never pay twice, and prove what they claim."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .calls.policy import Policy, Rule
    from .graphs.customer_service import build_customer_service
    from .graphs.plan_execute_verify import build_plan_execute_verify
    from .graphs.prompt_flow import build_prompt_flow
    from .graphs.react import build_react
    from .graphs.router import build_router
    from .graphs.task_agent import build_task_agent
    from .hooks.commands import command_hook
    from .hooks.contract import Hook, hook
    from .models.on_record import ReplayModel, RequestNotRecorded, record_model, replay_model
    from .models.openai_client import LeanChatOpenAI as LeanChatOpenAI
    from .models.reading import parse_executor, parse_planner, parse_verifier
    from .models.scripted import ScriptedModel
    from .policy.table import PolicyTable
    from .prompts.agents import codebase_investigator, desk_agents
    from .prompts.prompt import PromptManager
    from .run.graph import LoopBuilder
    from .state.agent import AgentDefinition, AgentLimits, define_reader
    from .state.context import Context
    from .state.contracts import ExecutorResponse, PlannerResponse, Todo, VerifierResponse
    from .state.errors import (
        AnswerRejected,
        DatabaseError,
        LeaseLost,
        LoopwrightError,
        ModelCallFailed,
        ModelUnavailable,
        SettingsError,
        StateKeyError,
        SyncCallInLoop,
        ThreadBusy,
        ThreadError,
        ThreadIncompatible,
        ThreadNotFound,
        ToolServerError,
    )
    from .state.outcome import Outcome
    from .store.durability import Durability, open_durability
    from .store.journal.port import Journal
    from .store.memories import Memory, delete_memories, list_memories
    from .store.work.turns import Turn
    from .stream.replay import Replay, stream_event

# Where the public names live. Imported when first used: `import loopwright` alone stays cheap.
_NAMES: Final = {
    "calls.policy": "Policy Rule",
    "graphs.customer_service": "build_customer_service",
    "graphs.plan_execute_verify": "build_plan_execute_verify",
    "graphs.prompt_flow": "build_prompt_flow",
    "graphs.react": "build_react",
    "graphs.router": "build_router",
    "graphs.task_agent": "build_task_agent",
    "hooks.commands": "command_hook",
    "hooks.contract": "Hook hook",
    "models.openai_client": "LeanChatOpenAI",
    "models.reading": "parse_executor parse_planner parse_verifier",
    "models.on_record": "ReplayModel RequestNotRecorded record_model replay_model",
    "models.scripted": "ScriptedModel",
    "policy.table": "PolicyTable",
    "prompts.agents": "codebase_investigator desk_agents",
    "prompts.prompt": "PromptManager",
    "run.graph": "LoopBuilder",
    "state.agent": "AgentDefinition AgentLimits define_reader",
    "state.context": "Context",
    "state.contracts": "ExecutorResponse PlannerResponse Todo VerifierResponse",
    "state.errors": (
        "AnswerRejected DatabaseError LeaseLost LoopwrightError ModelCallFailed"
        " ModelUnavailable SettingsError StateKeyError SyncCallInLoop ThreadBusy ThreadError"
        " ThreadIncompatible ThreadNotFound ToolServerError"
    ),
    "state.outcome": "Outcome",
    "store.durability": "Durability open_durability",
    "store.journal.port": "Journal",
    "store.memories": "Memory delete_memories list_memories",
    "store.work.turns": "Turn",
    "stream.replay": "Replay stream_event",
}
_HOMES: Final = {name: home for home, names in _NAMES.items() for name in names.split()}

# Spelled out for type checkers; a test compares it with _HOMES. It lacks LeanChatOpenAI, so that
# a star import does not load a provider.
__all__ = [
    "AgentDefinition",
    "AgentLimits",
    "AnswerRejected",
    "Context",
    "DatabaseError",
    "Durability",
    "ExecutorResponse",
    "Hook",
    "Journal",
    "LeaseLost",
    "LoopBuilder",
    "LoopwrightError",
    "Memory",
    "ModelCallFailed",
    "ModelUnavailable",
    "Outcome",
    "PlannerResponse",
    "Policy",
    "PolicyTable",
    "PromptManager",
    "Replay",
    "ReplayModel",
    "RequestNotRecorded",
    "Rule",
    "ScriptedModel",
    "SettingsError",
    "StateKeyError",
    "SyncCallInLoop",
    "ThreadBusy",
    "ThreadError",
    "ThreadIncompatible",
    "ThreadNotFound",
    "Todo",
    "ToolServerError",
    "Turn",
    "VerifierResponse",
    "build_customer_service",
    "build_plan_execute_verify",
    "build_prompt_flow",
    "build_react",
    "build_router",
    "build_task_agent",
    "codebase_investigator",
    "command_hook",
    "define_reader",
    "delete_memories",
    "desk_agents",
    "hook",
    "list_memories",
    "open_durability",
    "parse_executor",
    "parse_planner",
    "parse_verifier",
    "record_model",
    "replay_model",
    "stream_event",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(_HOMES)
