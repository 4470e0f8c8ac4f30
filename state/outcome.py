"""How a run ended and what it used: outcome, counters that add up, and what they can come to."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class RoleSpend(TypedDict, total=False):
    """Counters of one role or model."""

    model_calls: int
    input_tokens: int
    output_tokens: int
    usd: float


class Spend(TypedDict, total=False):
    """Counters of a run: calls, tokens, dollars, active seconds; split by role and by model."""

    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    usd: float | None
    """What the models cost whose prices are known; in an outcome None where no price was."""
    seconds: float
    by_role: dict[str, RoleSpend]
    by_model: dict[str, RoleSpend]
    models: dict[str, str]
    """Role to the model that answered last."""
    allowance: int
    """In an outcome: how often the request was given its limits, 1 unless it was taken up again."""


def add_spend(left: Spend | None, right: Spend | None) -> Spend:
    """Reducer: add two spends number by number, key by key; of names the later one stays."""
    total: Any = _add(left or {}, right or {})
    return total  # type: ignore[no-any-return]  # the shape is that of its two parts


def read_spend(outcome: "Outcome") -> Spend:
    """What a run used by its outcome, as whatever runs around it counts it."""
    counted: Any = {key: value for key, value in outcome["spend"].items() if value is not None}
    del counted["allowance"]
    whole: Spend = counted | {"models": outcome["models"]}
    return whole


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, dict) and isinstance(right, dict):
        return {
            key: _add(left[key], right[key])
            if key in left and key in right
            else (left | right)[key]
            for key in [*left, *(k for k in right if k not in left)]
        }
    return right if isinstance(right, str) else left + right


def model_spend(
    role: str, model: str, input_tokens: int, output_tokens: int, usd: float | None = None
) -> Spend:
    """The spend of one model call; `usd` is None where the model's price is unknown."""
    counted = RoleSpend(model_calls=1, input_tokens=input_tokens, output_tokens=output_tokens)
    if usd is not None:
        counted["usd"] = usd
    spend: Any = counted | {
        "by_role": {role: counted},
        "by_model": {model: counted.copy()},
        "models": {role: model},
    }
    whole: Spend = spend
    return whole


OutcomeStatus = Literal[
    "complete", "partial", "blocked", "exhausted", "stuck", "cancelled", "failed"
]
Reason = Literal[
    "GOAL", "MAX_TURNS", "MAX_ROUNDS", "TIMEOUT", "BUDGET", "MISSING_INFORMATION", "DENIED",
    "NOT_INTERACTIVE", "LOOP_DETECTED", "SAME_PLAN", "SAME_BLOCKERS", "ABORTED", "ERROR",
    "ERROR_NO_COMPLETE_TASK_CALL",
]  # fmt: skip

# Statuses a thread can be taken up from again; a complete one has nothing left to do.
RESUMABLE: frozenset[str] = frozenset(
    {"partial", "blocked", "exhausted", "stuck", "cancelled", "failed"}
)


class TaskOutcome(TypedDict):
    """One task as the outcome lists it."""

    id: str
    description: str
    status: str
    result: str
    evidence: list[str]
    attempts: int
    seconds: float


Way = Literal["direct", "react", "prompt_flow", "task_agent", "plan_execute_verify"]
"""What can take a request of the router, weakest first."""


class Tried(TypedDict):
    """A graph that had a request of the router, why it had it, and how it ended."""

    graph: Way
    why: str
    status: OutcomeStatus
    reason: Reason
    model_calls: int


class Outcome(TypedDict):
    """The end of a run."""

    status: OutcomeStatus
    """How it ended."""
    reason: Reason
    """Why, in one word."""
    headline: str
    """The end in a sentence for people."""
    answer: str
    """The text for the user; also the last message."""
    tasks: list[TaskOutcome]
    """`id`, `description`, `status`, `result`, `evidence`, `attempts`, `seconds` of each task or
    step; in react none."""
    unmet: list[str]
    """What is missing, in sentences."""
    uncertain_calls: list[dict[str, Any]]
    """Writes that may have happened: `id`, `task`, `tool`, `server`, `arguments`, `why`."""
    spend: Spend
    """Calls, tokens, dollars and active seconds; by role and by model."""
    models: dict[str, str]
    """Which model answered for each role."""
    warnings: list[str]
    """Problems, such as a missing MCP server."""
    result: Any
    """The answer as data of the result schema."""
    resume: dict[str, Any] | None
    """How to continue, if something is left to do."""
    tried: NotRequired[list[Tried]]
    """Of router, for each graph: `graph`, `why`, `status`, `reason`, `model_calls`."""


class Quote(TypedDict):
    """What a user turn may take at most."""

    model_calls: int
    """Requests to models; one that is made again counts again."""
    tool_calls: int
    tokens: int
    usd: float | None
    """US dollars; None where no limit is set and the price of a model is not known."""
    seconds: float
    """Active ones; a call that is under way then may end first."""
    models: dict[str, dict[str, float] | None]
    """Each model that may be asked: dollars per million tokens at most; None if not known."""
    notes: list[str]
    """What to know of these numbers."""
