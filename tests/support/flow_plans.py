"""Plans of tool calls for tests: written by hand, and any acyclic ones by hypothesis."""

from typing import Any

from hypothesis import strategies as st

from loopwright.state.flow import FlowStep
from loopwright.state.flow_contracts import ExecutionPlan


def step(name: str, *needs: str, tool: str = "get", **more: Any) -> dict[str, Any]:
    """A planned step; what is no field of its own is an argument."""
    fields = {"description", "optional", "expect", "retryCount", "timeout", "expectedOutput"}
    return {
        "id": name,
        "tool": tool,
        "dependencies": list(needs),
        "arguments": {k: v for k, v in more.items() if k not in fields},
        **{k: v for k, v in more.items() if k in fields},
    }


def plan(*steps: dict[str, Any], **variables: Any) -> ExecutionPlan:
    return ExecutionPlan.model_validate({"steps": steps, "globalVariables": variables})


def done(given: FlowStep, value: Any = None, **more: Any) -> FlowStep:
    """The step after its call."""
    name = given["id"]
    found = f"result of {name}" if value is None else value
    return {
        **given,
        "status": "completed",
        "result": found,
        "shape": "text",
        "evidence": [f"{name}.1.0"],
        "attempts": 1,
        "rounds": 1,
        "seconds": 0.5,
        **more,  # type: ignore[typeddict-item]
    }


@st.composite
def acyclic(draw: st.DrawFn, most: int = 6) -> list[dict[str, Any]]:
    """Steps of a sound plan in any order, with references, dependencies, and like calls."""
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=most, unique=True))
    steps = []
    for place, name in enumerate(names):
        before = st.sets(st.sampled_from(names[:place]), max_size=2) if place else st.just(set())
        texts = [f"{{{{{other}.x}}}}" for other in sorted(draw(before))]
        arguments = {"q": draw(st.integers(0, 1)), "of": texts}
        steps.append(
            {**step(name, *sorted(draw(before)), tool=draw(st.sampled_from(["get", "put"])))}
            | {"arguments": arguments}
        )
    return draw(st.permutations(steps))
