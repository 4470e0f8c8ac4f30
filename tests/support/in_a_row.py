"""Scripts that need one call after the other, each with a result of some 150 tokens."""

from loopwright import ScriptedModel
from support.scripts import call, passed, plan, report, thought, todo

SETTINGS = {
    "react": "max_iterations",
    "plan_execute_verify": "max_executor_rounds",
    "prompt_flow": "max_steps",
    "task_agent": "max_turns",
}
"""Graph to the one setting that is raised for more calls than by default."""

RESULT = "The owner of this lamp is Ada; it costs 7 euro and stands in row 4. " * 9


def in_a_row(graph, count):
    """A model that makes `count` calls of the tool beside it in this graph, and then answers."""
    calls = []

    def look(name: str) -> str:
        """Look up a fact."""
        calls.append(name)
        return f"{name}: {RESULT}"

    look.calls = calls
    return ScriptedModel(_MODELS[graph](count)), look


def _made(messages):
    return sum(message.type == "tool" for message in messages)


def _react(count):
    def answer(messages, offered):
        made, acts = _made(messages), bool(offered)
        if acts:
            return [call("look", f"c{made}", name=f"f{made}")]
        if made >= count:
            return thought("Ada owns them.")
        return thought("Another fact with look.", more=True)

    return answer


def _agent(count):
    def answer(messages, offered):
        made = _made(messages)
        if made >= count:
            return [call("complete_task", summary="Ada owns them.")]
        return [call("look", f"c{made}", name=f"f{made}")]

    return {"agent": answer, "loop_judge": [{"confidence": 0}] * count}


def _plan(count):
    def executor(messages, offered):
        made = _made(messages)
        if made >= count:
            return report("Ada owns them.")
        return [call("look", f"c{made}", name=f"f{made}")]

    verdicts = [passed("Ada owns them.", t1=["1.1.0"])]
    return {"planner": [plan(todo("1", "look"))] * 9, "executor": executor, "verifier": verdicts}


def _flow(count):
    steps = [
        {"id": f"s{n}", "tool": "look", "arguments": {"name": f"f{n}"},
         "dependencies": [f"s{n - 1}"] if n else []}
        for n in range(count)
    ]  # fmt: skip
    return {"flow_planner": [{"steps": steps}] * 9, "answerer": ["Ada owns them [s0]."]}


_MODELS = {
    "react": _react, "plan_execute_verify": _plan, "prompt_flow": _flow, "task_agent": _agent,
}  # fmt: skip
