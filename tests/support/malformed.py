"""Answers as models really spoil them: (role, name, turn of a scripted model).

`MENDED` can be read at the first ask; `REJECTED` must be asked again with the problems named.
"""

import json
from typing import Any

from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage

PLAN: dict[str, Any] = {
    "type": "component",
    "component": "planner-response",
    "summary": "Read, then answer.",
    "needsMorePlanning": False,
    "todos": [
        {"id": "1", "description": "Read the notes", "priority": 1, "status": "pending"},
        {"id": "2", "description": "Name the owner", "priority": 2, "status": "pending"},
    ],
}
REPORT: dict[str, Any] = {
    "type": "component",
    "component": "executor-response",
    "summary": "The owner is Mara.",
    "taskCompleted": True,
    "shouldContinue": False,
}
VERDICT: dict[str, Any] = {
    "type": "component",
    "component": "verifier-response",
    "allCompleted": False,
    "userNeedsSatisfied": False,
    "overallFeedback": "The owner is not named.",
    "tasks": [{"id": "1", "completed": False, "feedback": "no name", "evidence": []}],
    "summary": "",
    "improvements": ["Name the owner."],
}
GOOD: dict[str, dict[str, Any]] = {"planner": PLAN, "executor": REPORT, "verifier": VERDICT}
CONTRACT_NAMES = {
    "planner": "PlannerResponse",
    "executor": "ExecutorResponse",
    "verifier": "VerifierResponse",
}

Case = tuple[str, str, Any]


def _call(name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "args": args, "id": "call_0", "type": "tool_call"}


def _broken_call(name: str, args: str) -> AIMessage:
    bad = {
        "name": name,
        "args": args,
        "id": "c",
        "error": "no JSON",
        "type": "invalid_tool_call",
    }
    return AIMessage("", invalid_tool_calls=[bad])


def _ended(text: str, reason: str) -> AIMessage:
    return AIMessage(text, response_metadata={"finish_reason": reason})


def _mended(role: str, good: dict[str, Any]) -> list[Case]:
    text = json.dumps(good)
    pretty = json.dumps(good, indent=2)
    name = CONTRACT_NAMES[role]
    snake = {"needsMorePlanning": "needs_more_planning", "taskCompleted": "task_completed"}
    turns: dict[str, Any] = {
        "fence": f"```json\n{pretty}\n```",
        "fence without a language": f"```\n{text}\n```",
        "prose around": f"Sure! Here it is:\n\n{text}\n\nLet me know if {{that}} helps.",
        "prose and fence": f"Here is the answer:\n```json\n{text}\n```\nDone.",
        "think block": f"<think>First {{maybe}} I should answer {{}}.</think>\n{text}",
        "think block with an example": f'<think>like {{"summary": "draft"}}</think>{text}',
        "only the end of a think block": f"Let me think about it.</think>\n{text}",
        "trailing commas": pretty.replace("\n}", ",\n}").replace('"\n    }', '",\n    }'),
        "single quotes and Python literals": repr(good),
        "comments": "{ // the answer\n" + pretty[1:],
        "smart wrapper": json.dumps({name: good}),
        "call written as text": json.dumps({"name": name, "arguments": good}),
        "call written as text, arguments quoted": json.dumps({"name": name, "arguments": text}),
        "quoted twice": json.dumps(text),
        "unknown fields": json.dumps({**good, "confidence": 0.9, "notes": ["x"]}),
        "two objects, a draft first": f'{{"summary": "draft"}}\n{text}',
        "two objects, a remark after": f'{text}\n{{"note": "end"}}',
        "called the contract": [_call(name, good)],
        "called the contract with broken arguments": _broken_call(name, text[:-1] + ",}"),
        "the last brace forgotten": text[:-1],
        "raw line breaks in a string": text.replace(". ", ".\n").replace(", then", ",\nthen"),
        "byte order mark": "\ufeff" + text,
        "windows line ends": pretty.replace("\n", "\r\n"),
        "snake case": json.dumps({snake.get(key, key): value for key, value in good.items()}),
        "content blocks": AIMessage([{"type": "text", "text": text}]),
        "braces in text": f"Use {{name}} and {{{{x}}}} as they are.\n{text}",
    }
    return [(role, label, turn) for label, turn in turns.items()]


def _rejected(role: str, good: dict[str, Any]) -> list[Case]:
    text = json.dumps(good)
    turns: dict[str, Any] = {
        "empty": "",
        "blank": " \n\t ",
        "prose": "I am afraid I need more information to do that.",
        "only thoughts": "<think>What could the user want?",
        "half of it": text[: len(text) // 2],
        "cut inside a string": text[: text.index("summary") + 14],
        "an empty object": "{}",
        "null": "null",
        "a list": "[1, 2, 3]",
        "a number": "42",
        "other fields": '{"answer": 42}',
        "XML": "<response><summary>done</summary></response>",
        "length": _ended(text[:60], "length"),
        "length, closed by the streaming parser": _ended(text, "length"),
        "content filter": _ended("", "content_filter"),
        "malformed call": _ended("", "MALFORMED_FUNCTION_CALL"),
        "refusal": AIMessage("", additional_kwargs={"refusal": "I cannot help with that."}),
        "parser error": OutputParserException("no JSON", llm_output="no JSON here"),
        "a tool nobody offered": [_call("search", {"q": "owner"})],
        "the schema instead of an answer": json.dumps({"type": "object", "properties": {}}),
        "open braces": "{" * 500,
        "an unfinished fence": '```json\n{"summary": "x", "todos": [',
        "two whole ones that differ": f"Draft: {text}\nFinal: {text.replace('.', '!')}",
        "a key twice, with two values": f'{text[:-1]}, "summary": "other"}}',
        "binary": "\x00\x01\x02{\x00}",
        "nested far too deep": '{"summary":' + '{"a":' * 3000 + "1" + "}" * 3001,
    }
    return [(role, label, turn) for label, turn in turns.items()]


def _with(good: dict[str, Any], **changes: Any) -> str:
    return json.dumps({**good, **changes})


_OWN_MENDED: list[Case] = [
    ("planner", "numbers for ids", _with(PLAN, todos=[{"id": 1, "description": "Read"}])),
    ("planner", "a lone todo", _with(PLAN, todos={"id": "1", "description": "Read"})),
    ("planner", "string for a boolean", _with(PLAN, needsMorePlanning="false")),
    ("planner", "null lists", _with(PLAN, missingInformation=None)),
    ("planner", "other words for the status", json.dumps(PLAN).replace("pending", "TODO")),
    ("executor", "string for a boolean", _with(REPORT, taskCompleted="true")),
    ("executor", "null lists", _with(REPORT, todos=None, nextAction=None)),
    ("executor", "a number as summary", _with(REPORT, summary=42)),
    ("executor", "upper case action", _with(REPORT, taskCompleted=False, nextAction="CONTINUE")),
    ("verifier", "string for a boolean", _with(VERDICT, allCompleted="no")),
    ("verifier", "null lists", _with(VERDICT, tasks=None)),
    ("verifier", "a lone improvement", _with(VERDICT, improvements="Name the owner.")),
]

_LOOP = [
    {"id": "a", "description": "Read", "dependsOn": ["b"]},
    {"id": "b", "description": "Answer", "dependsOn": ["a"]},
]
_TWINS = [{"id": "1", "description": "Read"}, {"id": "1", "description": "Answer"}]

_OWN_REJECTED: list[Case] = [
    ("planner", "no todos", _with(PLAN, todos=[])),
    ("planner", "null todos", _with(PLAN, todos=None)),
    ("planner", "todos as text", _with(PLAN, todos="1. Read 2. Answer")),
    ("planner", "todos as a list of texts", _with(PLAN, todos=["Read", "Answer"])),
    ("planner", "a todo without description", _with(PLAN, todos=[{"id": "1"}])),
    ("planner", "duplicate ids", _with(PLAN, todos=_TWINS)),
    ("planner", "a cycle", _with(PLAN, todos=_LOOP)),
    (
        "planner",
        "an unknown dependency",
        _with(PLAN, todos=[{"id": "1", "description": "Read", "dependsOn": ["9"]}]),
    ),
    (
        "planner",
        "thousands of todos",
        _with(PLAN, todos=[{"id": str(n), "description": "Read"} for n in range(3000)]),
    ),
    ("planner", "an unknown status", json.dumps(PLAN).replace("pending", "perhaps")),
    ("executor", "completed without a result", _with(REPORT, summary="")),
    ("executor", "a missing flag", json.dumps({"summary": "The owner is Mara."})),
    ("executor", "a sentence for a boolean", _with(REPORT, taskCompleted="almost")),
    ("executor", "an unknown action", _with(REPORT, taskCompleted=False, nextAction="dance")),
    (
        "verifier",
        "both flags and no summary",
        _with(VERDICT, allCompleted=True, userNeedsSatisfied=True, tasks=[]),
    ),
    ("verifier", "no improvements", _with(VERDICT, improvements=[])),
    ("verifier", "null improvements", _with(VERDICT, improvements=None)),
    ("verifier", "flags that contradict the tasks", _with(VERDICT, allCompleted=True)),
    ("verifier", "tasks as texts", _with(VERDICT, tasks=["1"])),
]

MENDED: list[Case] = [c for role, good in GOOD.items() for c in _mended(role, good)] + _OWN_MENDED
REJECTED: list[Case] = [
    case for role, good in GOOD.items() for case in _rejected(role, good)
] + _OWN_REJECTED
MALFORMED: list[Case] = MENDED + REJECTED
