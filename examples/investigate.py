"""Ask how a codebase works: an agent delegates to codebase_investigator and writes a report.

    python examples/investigate.py [folder] [question] [--model provider:name] [--report file]

Without a model a script stands in, which searches for the last word of the question.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.tools import StructuredTool

from loopwright import AgentDefinition, ScriptedModel, build_task_agent, codebase_investigator
from loopwright.graphs.build import workspace_mcp

HERE = Path(__file__).resolve().parent.parent
QUESTION = "What becomes of a write that a crash cut off? Begin with the symbol in_doubt"


def call(name: str, **args: Any) -> list[dict[str, Any]]:
    """A message with one call."""
    return [{"name": name, "args": args}]


def stand_in(messages: list[BaseMessage], offered: list[str]) -> Any:
    """What a model would do, without one."""
    asked = next(message.text for message in messages if message.type == "human")
    results = [message.text for message in messages if message.type == "tool"]
    if "write_report" in offered:  # the agent that asks
        if not results:
            return call("delegate_to_agent", agent_name="codebase_investigator", objective=asked)
        report = json.loads(results[0])["output"]
        if len(results) == 1:
            return call("write_report", text=as_markdown(asked, report))
        return call("complete_task", summary=report["SummaryOfFindings"])
    word = asked.split()[-1]
    if not results:
        return call("search_text", query=word, glob="**/*.py", max_matches=200)
    files = sorted({found[1] for found in re.finditer(r"^([^\s:]+\.py):\d+", results[0], re.M)})
    if len(results) == 1:
        return [one for name in files[:5] for one in call("read_file", path=name, full=True)]
    places = [
        {
            "FilePath": name,
            "Reasoning": f"It says {word} {text.count(word)} times.",
            "KeySymbols": re.findall(r"^(?:async )?(?:def|class) (\w+)", text, re.M)[:5],
        }
        for name, text in zip(files, results[1:], strict=False)
    ]
    output = {
        "SummaryOfFindings": f"{len(files)} files speak of {word}.",
        "ExplorationTrace": [f"searched for {word}", *(f"read {name}" for name in files[:5])],
        "RelevantLocations": places,
    }
    return call("complete_task", summary=f"{word} stands in {len(files)} files.", output=output)


def as_markdown(question: str, report: dict[str, Any]) -> str:
    """The report for people."""
    places = [
        f"- `{one['FilePath']}`: {one['Reasoning']} ({', '.join(one['KeySymbols'])})"
        for one in report["RelevantLocations"]
    ]
    trace = [f"1. {step}" for step in report["ExplorationTrace"]]
    parts = [f"# {question}", report["SummaryOfFindings"], "## Where", *places, "## How", *trace]
    return "\n".join(parts) + "\n"


def main() -> None:
    """Investigate, and say how it ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default=str(HERE))
    parser.add_argument("question", nargs="?", default=QUESTION)
    parser.add_argument("--model")
    parser.add_argument("--report", default="report.md")
    given = parser.parse_args()

    def write_report(text: str) -> str:
        """Write the report, in Markdown: what was asked, what was found, and where."""
        Path(given.report).write_text(text, encoding="utf-8")
        return f"{len(text)} characters are in {given.report}"

    # A report is for people to read: whatever a file says, nothing in it is sent or run.
    report = StructuredTool.from_function(write_report, metadata={"sinks": []})
    author = AgentDefinition(
        prompt="Have the question investigated, then write the report with all its findings.",
        tools=("write_report",),
    )
    graph = build_task_agent(
        model=given.model or ScriptedModel(stand_in), tools=[report],
        mcp=workspace_mcp(given.folder), definition=author, agents=[codebase_investigator()],
    )  # fmt: skip
    outcome = graph.invoke({"messages": [("user", given.question)]})["outcome"]
    calls = outcome["spend"]["tool_calls"]
    told = f"{outcome['status']}: {outcome['answer']} ({calls} calls, see {given.report})"
    print(told)  # noqa: T201 - shows its result


if __name__ == "__main__":
    main()
