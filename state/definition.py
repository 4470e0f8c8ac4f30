"""What an agent is: its words, its tools, its limits, and what it gives back. One loop runs all."""

import re
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from .roles import Tier

_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}")


class AgentLimits(BaseModel):
    """What an agent may use in one user turn, where that is less than the run's settings allow."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    turns: int | None = Field(default=None, ge=1, description="Model turns; one more may report.")
    seconds: float | None = Field(default=None, gt=0, description="Active seconds.")
    tokens: int | None = Field(default=None, ge=1, description="Input and output tokens.")
    tool_calls: int | None = Field(default=None, ge=0, description="Tool calls.")
    usd: float | None = Field(default=None, gt=0, description="Money, by the prices known.")
    context: int | None = Field(default=None, ge=1_000, description="Tokens of one request.")


class AgentDefinition(BaseModel):
    """One agent. The graph's own one, or one that it may delegate to: they differ in nothing else.

    Attributes:
        name: By which it is called; letters, digits, `_` and `-`.
        display_name: What people are shown; its name without one.
        description: What it is for, as whoever delegates to it reads.
        input: A pydantic model or JSON schema of what it is given, beside the objective in words.
        prompt: Added to the system prompt of the loop.
        tier: How strong its model is; balanced without one.
        temperature: Of its model; the model's own without one.
        window: Tokens its model takes, where the model's profile does not say.
        tools: Names or globs of the tools it may call; None means all of the graph's.
        read_only: Of those, only the ones that declare that they change nothing.
        limits: What it may use.
        output_name: What its output is called where it is told.
        output: A pydantic model or JSON schema of the output that `complete_task` must give.
        lenient: Words without a call end its work (`responded`); else that breaks the protocol.
        agents: Names of the agents it may delegate to; () means none.
        warnings: What its file says that is not understood.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: str = "agent"
    display_name: str = ""
    description: str = ""
    input: Any = None
    prompt: str = ""
    tier: Tier | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    window: int | None = Field(default=None, ge=1_000)
    tools: tuple[str, ...] | None = None
    read_only: bool = False
    limits: AgentLimits = AgentLimits()
    output_name: str = "output"
    output: Any = None
    lenient: bool = False
    agents: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @field_validator("name")
    @classmethod
    def _is_name(cls, given: str) -> str:
        if not _NAME.fullmatch(given):
            msg = f"{given!r} is no name of an agent: use letters and digits, then also _ and -"
            raise ValueError(msg)
        return given

    @property
    def title(self) -> str:
        """What people are shown."""
        return self.display_name or self.name
