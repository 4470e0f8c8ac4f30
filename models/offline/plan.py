"""The offline planner: a goal is cut into clauses, and each clause is a task."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .literals import literals, readable
from .tools import Tool, allowed, word_score
from .words import (
    best_related,
    content_words,
    covered,
    is_question,
    lead,
    raw_words,
    without_courtesy,
)

MAX_TASKS: Final = 20
# A description longer than this is cut unless it is one long literal the task needs whole.
_LONG: Final = 4_000
# The overlap of words from which a tool clearly fits: about one word of its name and another word.
_CLEAR: Final = 1.0

_VERBS: Final = (
    "list|show|display|read|open|print|find|search|look|locate|grep|get|give|download|write|create|save|make|"
    "store|put|add|append|insert|delete|remove|erase|drop|clear|update|edit|replace|set|rename|copy|send|convert|"
    "translate|describe|calculate|compute|tell|say|explain|summari[sz]e|answer|compare|check|verify|run|execute|"
    "query|count|call|commit|push|pull|draft|analy[sz]e|extract|identify|determine|sort|filter|move|cancel|schedule|"
    "install|deploy|inspect|review|include|mention|let me know|sum up|report "
    "back|reserve|generate|restart|"
    "stop|upload|assign|close|merge|reply|remind|notify|lies|sag|zeige|liste|lösche|erstelle|lis|dis|crée|lee|dime|"
    "muestra|crea|busca"
)
_NOUN_TOO: Final = (
    "build|test|report|log|name|order|plan|note|email|file|book|change|start|mail|share|post|"
    "tag|pay|buy|use|fix"
)
_ASKS: Final = "who|whom|whose|what|when|where|why|how|which|is there|are there|does|did"
_THING: Final = (
    r"(?:the|a|an|all|every|each|its|it|them|this|that|these|those|my|our|me|us|\ue000\d+\ue001)\b"
)
_OPENS: Final = (
    rf"(?:(?:please|also|then|finally|afterwards|just)\s+)*(?:(?:{_VERBS}|{_ASKS})\b(?=\s+\S)|"
    rf"(?:{_NOUN_TOO})\b(?=\s+(?:{_THING}|\d))|"
    r"(?!(?:the|a|an|all|every|each|of|in|on|to|from|for|by|with|or|not|about|between|also|as|"
    r"at|but|than|both)\b)"
    rf"[a-z]{{3,12}}(?<!s)(?=\s+(?:the|a|an|all|every|its|it|them)\s+\w)|"
    r"[a-z]{3,12}(?<!s)(?=\s+\ue000\d+u\ue001))"
)
_BETWEEN: Final = re.compile(
    rf"(?i)(?:\s*[;\uff1b]\s*|\s*,?\s+(?:and\s+|und\s+|et\s+|y\s+)?(?:then|after that|"
    rf"afterwards|dann|puis|luego)\b,?\s+|"
    rf"\s*,\s*(?:and|und|et|y|but)?\s*(?={_OPENS})|\s+(?:and|und|et|y|&)\s+(?={_OPENS})|"
    rf"\uff0c(?:然后|再|并)?|\uff0c?然后)"
)
_SENTENCE: Final = re.compile(r"(?<=[.!?…])[\"')\]]*\s+(?=\S)|(?<=[\u3002\uff01\uff1f])\s*(?=\S)")
_BULLET: Final = re.compile(r"(?m)^[^\S\n]*(?:[-*•\u2013]|\(?\d{1,2}[.)]|[a-h]\))\s+")
_INLINE_NUMBER: Final = re.compile(r"(?:(?<=^)|(?<=\s))\(?\d{1,2}[.)]\s+(?=[^\W\d_])")
_CONTEXT: Final = re.compile(
    r"(?i)(?:i|we|my|our|it|this|these|there|thanks?|thank you|hi|hello|hey|dear|note that|"
    r"context|background|you are|"
    r"do not|don't|never|only use|be (?:brief|concise|short|quick|careful)|make sure|"
    r"answer in|remember|keep)\b"
)
_CONDITION: Final = re.compile(
    r"(?i)(?:if|when|whenever|while|assuming|given|suppose|since|because|once|unless|wenn|"
    r"falls|si|quand)\b[^,]*$"
)
_WISH: Final = re.compile(
    r"(?i)(?:i|we) (?:want|need|would like|'d like|wish|have to|must|wonder)\b|there(?:'s|"
    r" is) .*\?$"
)


def clauses(goal: str) -> list[str]:
    """Cut a goal into the things it asks for, in order; literals are never cut."""
    given = [item for item in literals(goal) if item.kind not in ("number", "time", "date", "id")]
    masked, at = [], 0
    for number, item in enumerate(given):
        mark = "u" if item.kind == "url" else ""
        masked += [goal[at : item.start], f"\ue000{number}{mark}\ue001"]
        at = item.end
    text = "".join([*masked, goal[at:]])
    cut = [piece for line in _lines(text) for piece in _pieces(line)]
    whole = [
        re.sub(
            r"\ue000(\d+)u?\ue001",
            lambda m: goal[given[int(m[1])].start : given[int(m[1])].end],
            piece,
        )
        for piece in cut
    ]
    return [piece for piece in whole if any(char.isalnum() for char in piece)]


def _lines(text: str) -> list[str]:
    if len(_INLINE_NUMBER.findall(text)) >= 2:
        text = _INLINE_NUMBER.sub("\n", text)
    bulleted = bool(_BULLET.search(text))
    lines = [_BULLET.sub("", line).strip() for line in text.splitlines()]
    if bulleted:
        lines = [line for line in lines if not line.endswith(":")] or lines
    return [line for line in lines if line]


def _pieces(line: str) -> list[str]:
    pieces: list[str] = []
    for sentence in _SENTENCE.split(line):
        for piece in _BETWEEN.split(sentence):
            _join_or_add(pieces, piece or "")
    return pieces


def _join_or_add(pieces: list[str], piece: str) -> None:
    """Add a piece, or join it to the one before where either of them cannot stand alone."""
    piece = piece.strip(" \t,;")
    if not piece:
        return
    alone = len(re.findall(r"[^\W_]+|\ue000", without_courtesy(piece))) >= 2 or "\ue000" in piece
    before = pieces[-1] if pieces else ""
    bare = len(re.findall(r"[^\W_]+", without_courtesy(before))) < 2 and not before.endswith(
        (".", "?", "!")
    )
    bare = bare and "\ue000" not in before
    if pieces and re.fullmatch(r"\([^()]*\)[.!?]?", piece):
        pieces[-1] = f"{before} {piece}"
    elif pieces and _CONDITION.match(before) and not re.search(r"[.?!]$", before):
        pieces[-1] = f"{before}, {piece}"
    elif pieces and (bare or (not alone and piece.isascii())) and not re.search(r"[.?!]$", before):
        pieces[-1] = (
            f"{before} and {piece}" if not piece.lower().startswith("and ") else f"{before} {piece}"
        )
    else:
        pieces.append(piece)


def split_goal(goal: str) -> tuple[list[str], str]:
    """The clauses that ask for something, and the sentences around them that only set the scene."""
    asked: list[str] = []
    scene: list[str] = []
    found = clauses(readable(goal))
    for clause in found:
        told = (
            _CONTEXT.match(clause) and not _WISH.match(clause) and not clause.rstrip().endswith("?")
        )
        (scene if told else asked).append(clause)
    if not asked:
        return found, ""
    return [_tidy(clause) for clause in asked], " ".join(scene)


def _tidy(clause: str) -> str:
    text = re.sub(r"(?i)^(?:and|then|also|first|next|finally|please)\b[\s,]*", "", clause.strip())
    text = text.rstrip(" .!;,") or clause
    quoted = (
        any(item.kind in ("quoted", "code", "sql") for item in literals(text))
        if len(text) > _LONG
        else True
    )
    return text if len(text) <= _LONG or quoted else text[:_LONG].rsplit(" ", 1)[0] + " …"


def plan(
    request: str,
    *,
    previous: Sequence[Mapping[str, Any]] = (),
    improvements: Sequence[str] = (),
    answers: Sequence[Mapping[str, Any]] = (),
    tools: Sequence[Tool] = (),
    most: int = MAX_TASKS,
) -> dict[str, Any]:
    """Answer as PlannerResponse: one todo a clause, or again those that are not proven yet."""
    if not any(char.isalnum() for char in request):
        return _nothing_asked()
    asked, scene = split_goal(request)
    asked = [tidy for tidy in asked if tidy] or [request[:_LONG]]
    asked = [part for clause in asked[: most + 1] for part in _by_tools(clause, tools)] + asked[
        most + 1 :
    ]
    told = "; ".join(
        f"{item.get('question', '')} {item.get('answer', '')}".strip() for item in answers
    )
    inputs = " ".join(part for part in (scene[:_LONG], told) if part)
    todos = _again(previous, improvements)[:most] or [
        {"id": str(number), "description": clause}
        for number, clause in enumerate(asked[:most], start=1)
    ]
    todos = [_todo(todo, priority, inputs) for priority, todo in enumerate(todos, start=1)]
    left = (
        f" The goal has {len(asked)} parts; the first {most} are planned."
        if len(asked) > most
        else ""
    )
    return {
        "summary": f"Planned without a language model: {len(todos)} task(s), one for each "
        f"part of the goal.{left}",
        "needsMorePlanning": False,
        "missingInformation": [],
        "todos": todos,
    }


def _todo(todo: Mapping[str, Any], priority: int, inputs: str) -> dict[str, Any]:
    proof = f"A successful tool call or an earlier result answers: {todo['description'][:300]}"
    return {
        **todo,
        "priority": priority,
        "status": "pending",
        "acceptanceCriteria": [proof],
        "inputs": inputs,
    }


def _nothing_asked() -> dict[str, Any]:
    return {
        "summary": "The request names nothing to do.",
        "needsMorePlanning": True,
        "missingInformation": ["What should be done? Please say it in a sentence."],
        "todos": [],
    }


def _again(
    previous: Sequence[Mapping[str, Any]], improvements: Sequence[str]
) -> list[dict[str, Any]]:
    """The todos of the plan before that are not proven, and what the improvements add to them."""
    if not previous or not improvements:
        return []
    named = {id(task): [text for text in improvements if _names(text, task)] for task in previous}
    todos = [
        {"id": str(task.get("id", "")), "description": str(task.get("description", ""))}
        for task in previous
        if named[id(task)] or task.get("status") != "completed"
    ]
    used = {text for texts in named.values() for text in texts}
    taken = {str(task.get("id", "")) for task in previous}
    for text in improvements:
        if text not in used and raw_words(text):
            number = next(str(n) for n in range(1, 1_000) if str(n) not in taken)
            taken.add(number)
            todos.append({"id": number, "description": _clause_of(text)})
    return [todo for todo in todos if todo["description"]][:MAX_TASKS]


def _names(improvement: str, task: Mapping[str, Any]) -> bool:
    description = str(task.get("description", ""))
    return (
        description in improvement
        or covered(content_words(description), content_words(improvement)) >= 0.8
    )


def _clause_of(improvement: str) -> str:
    quoted = re.match(r'"(.+?)": ', improvement, re.DOTALL)
    return quoted[1] if quoted else improvement


def _best(part: str, tools: Sequence[Tool]) -> tuple[float, str]:
    rest = [word for word in content_words(part) if word != lead(part)]
    meant = [
        tool
        for tool in tools
        if any(best_related(w, (*tool.name_words, *tool.first_words)) for w in rest)
    ]
    return max(
        ((word_score(part, tool, tools), tool.name) for tool in meant if allowed(part, tool)),
        default=(0.0, ""),
    )


def _by_tools(clause: str, tools: Sequence[Tool]) -> list[str]:
    """Cut 'show the status and the log' where a different tool clearly fits each part."""
    match = re.fullmatch(r"(\S+)\s+(?:me\s+)?(.+)", clause)
    if not match or len(clause) > 300 or is_question(clause) or literals(clause):
        return [clause]
    parts = re.split(r"\s*,\s*(?:and\s+|und\s+|et\s+|y\s+)?|\s+(?:and|und|et|y)\s+", match[2])
    parts = [f"{match[1]} {part}" for part in parts if part]
    if not 2 <= len(parts) <= 6 or any(len(content_words(part)) < 2 for part in parts):
        return [clause]
    best = [_best(part, tools) for part in parts]
    apart = len({name for _, name in best}) == len(parts)
    return parts if apart and min(best)[0] >= _CLEAR else [clause]
