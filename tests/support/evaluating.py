"""Models of Inspect that play scripts by role, and what a written log says."""

import json

from inspect_ai import eval as run_eval
from inspect_ai.log import read_eval_log
from inspect_ai.model import ChatMessageAssistant, ModelOutput, ModelUsage, get_model
from inspect_ai.tool import ToolCall

from support.scripts import call, passed, plan, report, thought, todo

EACH = {"input_tokens": 3_000, "output_tokens": 200, "total_tokens": 3_200}
"""What each call uses; without it the mock counts by a vocabulary from the network. As much as the
library believes: less it takes for a wrong count."""
PAY = call("refund", order_id="F-2041", amount=84.5)
DONE = [call("complete_task", summary="Order F-2041 was refunded, 84.5 EUR.")]
SAID = "84.5 EUR of F-2041 are paid back."


def play(turns):
    """A model that gives these turns in order, or what a function of the request says."""
    left = None if callable(turns) else iter(turns)

    def answer(messages, tools, choice, config):
        turn = turns(messages) if left is None else next(left)
        turn = turn if isinstance(turn, str | list) else json.dumps(turn)
        made = ModelOutput.from_content("mock", turn if isinstance(turn, str) else "")
        if isinstance(turn, list):
            calls = [
                ToolCall(f"{one['name']}-{len(messages)}-{n}", one["name"], one["args"])
                for n, one in enumerate(turn)
            ]
            made.choices[0].message = ChatMessageAssistant(content="", tool_calls=calls)
        made.usage = ModelUsage(**EACH)
        return made

    return get_model("mockllm/model", custom_outputs=answer)


def measure(task, folder, scripts, **options):
    """Run a task with a model a role, and read the log that was written."""
    roles = {role: play(turns) for role, turns in scripts.items() if role}
    run_eval(
        task, model=play(scripts.get("", ["no script"])), model_roles=roles, log_dir=str(folder),
        display="none", **options,
    )  # fmt: skip
    return read_newest(folder)


def read_newest(folder):
    return read_eval_log(str(max(folder.glob("*.eval"), key=lambda file: file.stat().st_mtime_ns)))


def results(log):
    """Each score's mean or share."""
    return {
        score.name: value.value
        for score in log.results.scores
        for name, value in score.metrics.items()
        if name != "stderr"
    }


def record(sample):
    """What the graph's runs left in a sample's store."""
    return {key.removeprefix("LoopRecord:"): value for key, value in sample.store.items()}


def cite(messages):
    """An answer of prompt_flow that cites its step."""
    return f"{SAID} [r]"


REFUNDS = {
    "task_agent": {"agent": [[PAY], DONE]},
    "react": {
        "thought": [thought("I pay.", more=True, reason="r"), thought(SAID)],
        "action": [[PAY]], "observation": ["It is paid."],
    },
    "prompt_flow": {
        "flow_planner": [{"goal": "pay", "planId": "p", "steps": [
            {"id": "r", "description": "pay", "tool": "refund", "dependencies": [],
             "arguments": PAY["args"]}
        ]}],
        "answerer": cite,
    },
    "plan_execute_verify": {
        "planner": [plan(todo("1", "pay F-2041 back"))],
        "executor": [[PAY], report("paid back")],
        "verifier": [passed(SAID, t1=["1.1.0"])],
    },
    "router": {
        "dispatcher": [{"graph": "task_agent", "why": "it fits"}], "agent": [[PAY], DONE],
    },
}  # fmt: skip
"""Scripts that pay order F-2041 back, by graph."""

DESK_REFUND = {
    "listener": [{"intent": "refund", "mood": "upset", "score": -0.5}],
    "support": [[PAY], "I am sorry about the lamp. Your refund is on its way."],
    "proofreader": lambda messages: {"unsupported": []},
    "customer": ["Yes!", [call("hang_up")]],
}
