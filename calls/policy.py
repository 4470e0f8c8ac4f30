"""Whether a call runs, is refused or is asked about, by rules and by what was approved. Pure.

A `Rule` matches calls by tool and arguments; a `Case` is a decision with what must hold for it.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..policy.origin_words import ValueOrigins, has_origins
from ..policy.rules import select_language
from ..policy.table import PolicyTable
from ..state.context import Context, PolicyWord
from ..state.errors import SettingsError
from ..state.limits import read_file
from ..text.sentences import say
from ..text.words import find_pattern_error
from ..tools.catalog import CatalogTool
from ..tools.python_tools import BUILT_IN
from .grants import is_granted, matches_pattern

Action = Literal["allow", "ask", "deny"]

ForeignWord = Literal["ask", "strict", "allow"]
"""What happens to values of strangers in a call: a question, one also for whole fields, nothing."""

NOT_INTERACTIVE: Final = "not_interactive"
"""The reason of a call that would be asked about, where nobody can answer."""

GRANTED: Final = "allowed for this session"
"""The reason of a call that needs no question, because the user has said so before."""

_STRICTNESS: Final = ("allow", "ask", "deny")


@dataclass(frozen=True)
class Decision:
    """What happens to a call, and why; a question may be answered for `expires_in` seconds.

    `lifts` are the arguments (`*`: all) whose origins a rule of the operator allows by name.
    """

    action: Action
    reason: str
    expires_in: float | None = None
    lifts: frozenset[str] = frozenset()


class Rule(BaseModel):
    """One rule. It applies to a call if everything that it names matches.

    Attributes:
        action: What happens then.
        tool: Glob over the tool's name, as the model sees it or as its server calls it.
        server: Glob over the server's name; Python tools never match.
        agent: Glob over the name of the graph or sub-agent that makes the call; it also matches
            the sub-agents of that one.
        annotations: Hints and their values, such as `{"readOnlyHint": true}`; undeclared ones
            count as false.
        arguments: Argument path (`a.b`) to a regular expression searched in its value.
        origin: Argument path (`*`: all) to origins: `request`, `operator`, `model`, `foreign`,
            `confidential`, or a tool (also `server/tool`) in a field of whose result the value
            stands whole. What allows wants each value to have one of them, what asks or denies
            wants one that has: so neither lets pass what the operator did not name.
        expires_in: Seconds in which a question of action `ask` may be answered; None: the run's
            settings decide.
        reason: Sentence for the model and the user.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    action: Action
    tool: str = "*"
    server: str | None = None
    agent: str | None = None
    annotations: dict[str, bool] = {}
    arguments: dict[str, str] = {}
    origin: dict[str, Annotated[list[str], Field(min_length=1)]] = {}
    expires_in: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    reason: str = ""

    def __init__(self, **values: Any) -> None:
        """Refuse a rule that could never match or would fail at a call.

        Raises:
            SettingsError: A key or a value is wrong.
        """
        try:
            super().__init__(**values)
        except ValidationError as error:
            wrong = "; ".join(f"{e['loc'][0]}: {e['msg']}" for e in error.errors())
            msg = f"This is no policy rule: {values!r}. {wrong}."
            raise SettingsError(msg) from error
        for name, pattern in self.arguments.items():
            if why := find_pattern_error(pattern):
                msg = f"The policy rule's pattern for {name!r} is no regular expression: {why}."
                raise SettingsError(msg)

    def may_fit(self, tool: CatalogTool) -> bool:
        """Whether the rule may apply to a call of this tool, by any agent with any arguments."""
        if not (fnmatchcase(tool.name, self.tool) or fnmatchcase(tool.original, self.tool)):
            return False
        if self.server is not None and (
            tool.server is None or not fnmatchcase(tool.server, self.server)
        ):
            return False
        declared = {"openWorldHint": bool(tool.open_world), **tool.declared}
        return all(declared.get(hint, False) == v for hint, v in self.annotations.items())


@dataclass(frozen=True)
class Case:
    """A decision and its conditions: the caller (a glob), patterns and origins of arguments."""

    decision: Decision
    agent: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    origin: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def fits(self, args: Mapping[str, Any], agent: str, origins: ValueOrigins | None) -> bool:
        """Whether it applies to a call with these arguments, of these origins, by this agent.

        If a pattern takes too long, or origins are not known, a case that allows does not apply
        and every other one does. What allows needs every value to be of the origins that it lists;
        for any other one value is enough.
        """
        allows = self.decision.action == "allow"
        names = [agent, *agent.split("/")]
        if self.agent is not None and not any(fnmatchcase(name, self.agent) for name in names):
            return False
        if not all(
            not allows if origins is None else has_origins(origins, path, listed, every=allows)
            for path, listed in self.origin.items()
        ):
            return False
        try:
            return all(matches_pattern(p, args, path) for path, p in self.arguments.items())
        except TimeoutError:
            return not allows


@dataclass(frozen=True)
class Policy:
    """Rules in order, and the default for calls that match no rule.

    `given` is false if the program that built the graph gave no policy. A `table` decides about
    every tool that it names and about every other tool that writes. `foreign` says what happens to
    values that a stranger may have written: see `policy.origins`; `records_of` are the servers
    whose fields count as records, all of them without any; calls of `to_operator`, such as a
    desk's tickets, reach nobody but the operator's own people.
    """

    rules: tuple[Rule, ...] = ()
    default: PolicyWord = "default"
    given: bool = True
    table: PolicyTable | None = None
    foreign: ForeignWord = "ask"
    records_of: tuple[str, ...] = ()
    to_operator: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: "PolicyLike", foreign: str | None = None) -> "Policy":
        """Read a policy.

        Args:
            value: A word (default, allow, ask, deny), rules, a policy, a table, the path of a JSON
                file with a list of rules or `{"rules": […], "default": word}`, or of a YAML file
                with a table.
            foreign: ask, strict or allow; None: what the policy says.

        Raises:
            SettingsError: none of these, or a rule with an unknown key or value.
        """
        policy = cls._read(value)
        word = policy.foreign if foreign is None else _read_word(foreign, "foreign")
        return replace(policy, foreign=word)

    @classmethod
    def _read(cls, value: "PolicyLike") -> "Policy":
        if value is None or isinstance(value, Policy):
            return value or cls(given=False)
        if isinstance(value, PolicyTable):
            return cls(table=value)
        if isinstance(value, str) and value in get_args(PolicyWord):
            return cls(default=_read_word(value, "default"))
        if isinstance(value, str | Path) and Path(value).suffix in (".yaml", ".yml"):
            return cls(table=PolicyTable.read(value))
        content = _load_file(Path(value).expanduser()) if isinstance(value, str | Path) else value
        default, foreign = "default", "ask"
        if isinstance(content, Mapping):
            if unknown := set(content) - {"rules", "default", "foreign"}:
                named = sorted(unknown, key=str)
                msg = f"A policy has the keys rules, default and foreign, not {named}."
                raise SettingsError(msg)
            default, foreign = content.get("default", "default"), content.get("foreign", "ask")
            content = content.get("rules", [])
        if not isinstance(content, Sequence) or isinstance(content, str):
            msg = "A policy is a list of rules, such as [{'tool': 'delete_*', 'action': 'deny'}]."
            raise SettingsError(msg)
        rules = tuple(_read_rule(rule) for rule in content)
        return cls(rules, _read_word(default, "default"), foreign=_read_word(foreign, "foreign"))

    def decide(
        self,
        tool: CatalogTool,
        args: Mapping[str, Any],
        *,
        context: Context,
        can_ask: bool,
        agent: str = "",
        grants: Collection[Mapping[str, Any]] = (),
        origins: ValueOrigins | None = None,
    ) -> Decision:
        """Decide on one call with checked arguments, of these origins, by this agent. Pure.

        The `policy` of the run's settings decides about calls without a rule: it may always make
        them stricter, but looser only if the program gave no policy. Grants (what the user has
        approved for the rest of the thread) spare a question and never lift a denial.
        """
        decision = _pick_strictest(self.list_cases(tool, context), args, agent, origins)
        if decision.action != "ask":
            return decision
        if self.table is None and any(is_granted(grant, tool, args) for grant in grants):
            return Decision("allow", GRANTED)
        if not (can_ask and context.interactive):
            return Decision("deny", NOT_INTERACTIVE)
        return decision

    def names_origins(self, tool: CatalogTool) -> bool:
        """Whether the origins of a call's values may decide about calls of a tool."""
        by_table = self.table is not None and self.table.names_origins(tool.original, tool.server)
        return by_table or any(rule.origin and rule.may_fit(tool) for rule in self.rules)

    def list_cases(self, tool: CatalogTool, context: Context) -> list[Case]:
        """Every way in which calls of a tool may be decided; the first case that fits counts.

        The last one fits every call.
        """
        if tool.own is not None:
            return [Case(Decision("allow", "built in"))]
        cases: list[Case] = []
        for rule in self.rules:
            if rule.may_fit(tool):
                reason = rule.reason or say("policy_rule", tool=rule.tool)
                seconds = rule.expires_in or context.question_expires_in
                decision = _set_expiry(Decision(rule.action, reason), seconds)
                if rule.action == "allow":
                    decision = replace(decision, lifts=frozenset(rule.origin))
                cases.append(Case(decision, rule.agent, rule.arguments, rule.origin))
                if rule.agent is None and not (rule.arguments or rule.origin):
                    return cases
        cases += self._list_server_cases(tool, context)
        return [*cases, Case(self._decide_default(tool, context))]

    def _list_server_cases(self, tool: CatalogTool, context: Context) -> list[Case]:
        """The cases in which the server asks about a tool that would run otherwise.

        A rule about this tool, or about all tools, goes first.
        """
        decided = tool.auto_approve or self.default in _STRICTNESS
        if decided or self._decide_default(tool, context) != _decide_by_hints(tool):
            return []
        decision = _set_expiry(Decision("ask", say("asked_by_server")), context.question_expires_in)
        return [Case(decision, arguments={path: p}) for path, p in tool.asks.items()]

    def _decide_default(self, tool: CatalogTool, context: Context) -> Decision:
        """The decision on calls no rule speaks of."""
        decision = self._decide_unruled(tool)
        word, order = context.policy, _STRICTNESS.index
        if word != "default" and (not self.given or order(word) > order(decision.action)):
            decision = Decision(word, say("policy_of_this_run", word=word))
        return _set_expiry(decision, context.question_expires_in)

    def _decide_unruled(self, tool: CatalogTool) -> Decision:
        if self.table is not None:
            return Decision(*_decide_by_table(self.table, tool))
        if tool.auto_approve:
            return Decision("allow", "autoApprove in the MCP configuration")
        if self.default in _STRICTNESS:
            return Decision(self.default, say("policy_of_the_program", word=self.default))
        return _decide_by_hints(tool)


def _pick_strictest(
    cases: Sequence[Case], args: Mapping[str, Any], agent: str, origins: ValueOrigins | None
) -> Decision:
    """The decision for an agent and all agents above it: a sub-agent never has more rights."""
    line = reversed([*accumulate(agent.split("/"), "{}/{}".format)])
    made = [
        next(case.decision for case in cases if case.fits(args, name, origins)) for name in line
    ]
    strictest = max(made, key=lambda decision: _STRICTNESS.index(decision.action))
    return replace(strictest, lifts=frozenset.intersection(*(one.lifts for one in made)))


def _set_expiry(decision: Decision, seconds: float | None) -> Decision:
    return replace(decision, expires_in=seconds) if decision.action == "ask" else decision


def _decide_by_hints(tool: CatalogTool) -> Decision:
    """What a tool's own words mean where nobody else has spoken.

    The program that gave a Python tool stands behind it; a server is a stranger.
    """
    if tool.read_only:
        return Decision("allow", "read-only")
    if tool.destructive:
        return Decision("ask", "the tool declares itself destructive")
    if tool.server is None:
        return Decision("allow", "tool of the program")
    if tool.is_doubted:
        return Decision("ask", "its server says that it only reads, and is not trusted")
    return Decision("ask", "the tool does not declare itself read-only")


def _decide_by_table(table: PolicyTable, tool: CatalogTool) -> tuple[Literal["allow", "deny"], str]:
    """Whether calls of a tool may come before the guard, which judges each call, and why."""
    if table.is_verifier(tool.original, tool.server):
        return "allow", "it verifies who the customer is"
    if tool.tool is BUILT_IN:
        return "allow", "it asks a model"
    governed = table.find_governed(tool.original, tool.server)
    if governed is None:
        if tool.read_only and table.reads:
            return "allow", "read-only"
        return "deny", say("policy_unlisted", tool=tool.name)
    if governed.section is None and governed.verdict == "forbidden":
        return "deny", select_language(governed.article) or say("policy_forbidden", tool=tool.name)
    if governed.reads:
        return "allow", "the policy says that it only reads"
    return "allow", say("policy_by_table", rows=governed.section or governed.verdict)


def mark_read_only(table: PolicyTable, tool: CatalogTool) -> CatalogTool:
    """The tool as the operator knows it: a table may say of one that it only reads."""
    governed = table.find_governed(tool.original, tool.server)
    return replace(tool, read_only=True, idempotent=True) if governed and governed.reads else tool


def list_missing_tools(table: PolicyTable, tools: Collection[CatalogTool]) -> list[str]:
    """What to say of tools that a table names and nobody has; without tools there is no word.

    A change that is named wrongly is forbidden as one that is not named.
    """
    names = {name for t in tools for name in (t.original, f"{t.server}/{t.original}")}
    lost = ", ".join(name for name in table.tool_names if name not in names)
    advice = "but the policy names it: correct the name there, or give the tool."
    return [f"There is no tool {lost}, {advice}"] if tools and lost else []


def _read_word(value: object, key: Literal["default", "foreign"]) -> Any:
    words = get_args(PolicyWord if key == "default" else ForeignWord)
    if value not in words:
        msg = f"A policy's {key} is one of {', '.join(words)}, not {value!r}."
        raise SettingsError(msg)
    return value


def _read_rule(value: object) -> Rule:
    if isinstance(value, Rule):
        return value
    if not isinstance(value, Mapping):
        msg = f"A policy rule is an object with an action, not {value!r}."
        raise SettingsError(msg)
    return Rule(**{str(key): item for key, item in value.items()})


def _load_file(path: Path) -> object:
    try:
        return json.loads(read_file(path, "settings"))
    except OSError as error:
        msg = (
            f"The policy {str(path)!r} is neither a word (default, allow, ask, deny) nor a file "
            f"that can be read: {error.strerror or error}."
        )
        raise SettingsError(msg) from error
    except (ValueError, RecursionError) as error:
        msg = f"The policy file {path} is no valid JSON: {error}."
        raise SettingsError(msg) from error


PolicyLike = None | str | Path | Sequence[Rule | Mapping[str, Any]] | Policy | PolicyTable
