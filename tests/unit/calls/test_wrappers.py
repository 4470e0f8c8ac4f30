"""Which wrappers a call has: what is not configured is not on its path."""

from pathlib import Path
from typing import Any

import pytest

from loopwright.calls.gate import Gate
from loopwright.calls.path import PassScope, list_wrappers
from loopwright.calls.toolbox import Toolbox
from loopwright.hooks.contract import Hook
from loopwright.hooks.registry import Hooks
from loopwright.state.context import Context
from loopwright.tools.catalog import READ_RESULT
from support.flows import declared
from support.scope import call_of, scope_with

ROOT = Path(__file__).parents[3]
POLICY = ROOT / "examples" / "shop" / "lumen" / "policy.yaml"
HOOKS = Hooks([Hook(event="AfterTool", run=lambda _: None)])
BEFORE = [{"id": "1.1.0", "tool": "put", "arguments": {}, "result": "", "status": "success"}]
PLAIN = ["pay_for_call", "mark_executing", "cap_size", "send_call"]


def put(name: str) -> str:
    """Put a thing."""
    return f"{name} is put"


def look(name: str) -> str:
    """Look for a thing."""
    return f"{name} is there"


async def names(tool="put", *, reads=False, policy=None, history=(), scope=None, **pending) -> Any:
    """The names of a call's wrappers, but for the tracer's, which other tests may have set up."""
    scope = scope or scope_with()
    box = Toolbox([put, declared(look, readOnlyHint=True)] if reads else [put], policy=policy)
    gate = await Gate.for_run(box, scope)
    memory = box.get_read_cache("t", "1") if box.may_reuse(scope.context) else None
    rest: Any = {"book": None, "results": None, "run_along": None}
    work = PassScope(
        scope=scope, toolbox=box, gate=gate, memory=memory, history=history, beside=[],
        plain=False, state=None, shared=False, **rest,
    )  # fmt: skip
    call = call_of("1.2.0", name=tool, **pending)
    call.tool = gate.catalog.find(tool)
    chosen = [wrapper.__name__ for wrapper in list_wrappers(work, call)]
    return [name for name in chosen if name != "trace_call"]


async def test_a_write_of_a_plain_run_is_paid_for_recorded_and_sent():
    assert await names() == [
        "pay_for_call",
        "journal_write",
        "mark_executing",
        "cap_size",
        "send_call",
    ]


async def test_a_read_is_not_recorded_and_may_be_reused():
    assert await names("look", reads=True) == ["reuse_result", *PLAIN]
    off = scope_with(Context(dedupe="off"))
    assert await names("look", reads=True, scope=off) == PLAIN


@pytest.mark.parametrize(
    ("how", "first"),
    [
        ({"history": BEFORE}, "guard_against_loops"),
        ({"policy": POLICY}, "guard_by_tables"),
        ({"reads": True}, "reuse_result"),
    ],
)
async def test_what_is_configured_stands_before_the_allowance(how, first):
    found = await names(**how)
    assert found[0] == first
    assert "pay_for_call" in found


async def test_hooks_see_a_result_before_it_is_cut():
    found = await names(scope=scope_with(hooks=HOOKS))
    assert found[-3:] == ["cap_size", "show_to_hooks", "send_call"]


async def test_a_hooks_own_call_has_passed_the_outer_wrappers():
    found = await names("put", reads=True, history=BEFORE, policy=POLICY, tail_of="look")
    assert found[0] == "pay_for_call"


async def test_the_packages_own_tools_are_answered_before_anything_is_paid():
    found = await names(READ_RESULT)
    assert found[0] == "answer_by_handler"
