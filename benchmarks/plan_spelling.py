"""How long is a plan as a model writes it? Characters and tokens a step, as JSON and short.

The plans are those of the examples, a random DAG of 100 steps of `flow_plans`, and look-ups with
one short argument each, as LLMCompiler's are. JSON is written without what is as by default, as
the prompt shows it; tokens are estimated as everywhere in the package, 4 characters each.

    python benchmarks/plan_spelling.py
"""

import importlib.util
import json
import random
import sys
from pathlib import Path
from typing import Any

from flow_plans import drawn, plan_of

from loopwright.flow.execution_plan import ExecutionPlan
from loopwright.text.canonical import estimate_tokens

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.short_plans import short_of

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(folder: str, module: str) -> dict[str, Any]:
    """The plan of an example."""
    path = EXAMPLES / folder / f"{module}.py"
    spec = importlib.util.spec_from_file_location(f"{folder}_{module}", path)
    if spec is None or spec.loader is None:
        msg = f"{path} cannot be loaded."
        raise FileNotFoundError(msg)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    plan: dict[str, Any] = loaded.PLAN
    return plan


def look_ups() -> dict[str, Any]:
    """Four searches, the last of which takes what the others gave."""
    steps = [
        {"id": f"s{n}", "tool": "search", "arguments": {"query": f"capital of land {n}"}}
        for n in range(1, 4)
    ]
    last = {"id": "s4", "tool": "search", "arguments": {"query": "{{s1}} {{s2}} {{s3}}"}}
    return {"steps": [*steps, last]}


def spelled(plan: ExecutionPlan) -> dict[str, str]:
    """The steps of a plan in each spelling."""
    steps = plan.model_copy(update={"goal": "", "global_variables": {}, "left_out": []})
    bare = steps.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {"JSON": json.dumps(bare["steps"], ensure_ascii=False), "short": short_of(
        ExecutionPlan(steps=steps.steps))}  # fmt: skip


def main() -> None:
    """Print a line a plan."""
    sys.stdout.write(
        f"{'plan':12} {'steps':>5} {'JSON':>12} {'short':>12}   characters/tokens a step\n"
    )
    plans = {
        "sales": example("sales", "analyst"),
        "refund": example("refund", "clerk"),
        "random": plan_of(drawn(random.Random(7), 0.1)),
        "look-ups": look_ups(),
    }
    for name, given in plans.items():
        plan = ExecutionPlan.model_validate(given)
        count = len(plan.steps)
        texts = spelled(plan).values()
        sizes = (f"{len(t) / count:.0f}/{estimate_tokens(t) / count:.0f}" for t in texts)
        sys.stdout.write(f"{name:12} {count:5} {' '.join(f'{size:>12}' for size in sizes)}\n")


if __name__ == "__main__":
    main()
