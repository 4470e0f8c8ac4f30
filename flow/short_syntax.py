"""The short spelling of a plan of prompt_flow: one line a step. Pure, linear time.

    goal: what is wanted
    global.year = 2025
    s1 = query(sql: "select …", limit: 5) ; expect rows is not empty
    s2 = llm_call(prompt: "Sum up {{s1.rows}}") ; after s1 ; when s1.row_count > 0 # what for

A value is JSON, a text in either quotes, or one reference without quotes. Line breaks count for
nothing inside brackets and texts. What cannot be read is told, never guessed.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from ..text.canonical import shorten_text
from ..text.sentences import say

_NAME: Final = r"""[^\s=()"'`;:,#\[\]{}]+"""
_BULLET: Final = r"(?:[-*•]\s+|\d{1,4}[.)]\s+)?"
_ANY_NAME: Final = rf"""(?:{_NAME}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
_STEP: Final = re.compile(rf"[ \t]*{_BULLET}{_ANY_NAME}\s*=\s*{_ANY_NAME}\s*\(")
_STEP_LINE: Final = re.compile(rf"^{_STEP.pattern}", re.MULTILINE)
_STEP_BEGINS: Final = re.compile(rf"[ \t]*{_BULLET}")
_VARIABLE: Final = re.compile(r"[ \t]*global(?:\.(?P<name>[^\s.\[\]{}=]+)|\[\s*(?=[\"']))")
_HEAD: Final = re.compile(r"[ \t]*(?P<name>[A-Za-z_]+(?: out)?)\s*:[ \t]*")
_FENCE: Final = re.compile(r"^[ \t]*```[^\n]*$", re.MULTILINE)
_FENCED: Final = re.compile(r"^[ \t]*```[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
WORD: Final = re.compile(r"[A-Za-z_]\w*")
_PLAIN: Final = re.compile(_NAME)
REFERENCE: Final = re.compile(r"""\{\{(?:[^{}"'\n]|"[^"\n]*"|'[^'\n]*')*\}\}""")
_REMARK: Final = re.compile(r"#[ \t]*([^\n]*)")
CONDITION: Final = re.compile(
    r"""(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\\[^;\n]|(?!\s\#(?:\s|\Z))[^;\n])*"""
)
QUOTED: Final = re.compile(r"""(?<!\\)(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")
_TEXT: Final = re.compile(r"""(["'])((?:\\.|(?!\1)[^\\])*)\1""", re.DOTALL)
_ESCAPE: Final = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\",
                   '"': '"', "'": "'"}  # fmt: skip
_WORDS: Final = {"true": True, "false": False, "null": None, "none": None}
_CONSTANTS: Final = _WORDS | {word.capitalize(): value for word, value in _WORDS.items()}
_SPACE: Final = re.compile(r"[ \t]*")
_ANY_SPACE: Final = re.compile(r"\s*")
_BEFORE_CLAUSE: Final = re.compile(r"[ \t;]*")
_BEHIND_WORD: Final = re.compile(r"[ \t]*[:=]?[ \t]*")
_REST: Final = re.compile(r"[^\n]*")
_NOTHING: Final = re.compile(r"(?:\s+|(?:#|//)[^\n]*)*")
_CLAUSE_END: Final = re.compile(r"[ \t]*(?=[;\n]|#|\Z)")
_LINE_END: Final = re.compile(r"[ \t]*;?[ \t]*(?:#[^\n]*)?(?=\n|\Z)")
_DEEPEST: Final = 60
_SHOWN: Final = 80

# Clause in small letters, as it is read, to the field of a step; the first of a field is written.
CLAUSES: Final[Mapping[str, str]] = {
    "after": "dependencies", "when": "when", "foreach": "forEach", "maxitems": "maxItems",
    "expect": "expect", "optional": "optional", "retry": "retryCount", "timeout": "timeout",
    "output": "expectedOutput", "about": "description",
    "dependson": "dependencies", "dependencies": "dependencies", "for_each": "forEach",
    "max_items": "maxItems", "retries": "retryCount", "retrycount": "retryCount",
    "expectedoutput": "expectedOutput", "description": "description",
}  # fmt: skip
CONDITIONS: Final = frozenset({"when", "expect"})
_HEADS: Final = {
    "goal": "goal", "planid": "planId", "leftout": "leftOut", "metadata": "metadata",
    "globalvariables": "globalVariables",
}  # fmt: skip


class ShortPlanError(Exception):
    """A part that cannot be read: why, in words."""


def find_short_plan(text: str) -> str:
    """The plan in short syntax within a text; '' if there is none, or if it is JSON."""
    blocks = [block for block in _FENCED.findall(text) if _STEP_LINE.search(block)]
    plan = "\n".join(blocks) if blocks else text
    found = _STEP_LINE.search(plan)
    brace = re.search(r"^[ \t]*[{\[]", plan, re.MULTILINE)
    return "" if found is None or (brace and brace.start() < found.start()) else plan


def read_short_plan(text: str) -> tuple[dict[str, Any], list[str]]:
    """A plan by ExecutionPlan's names on the wire, and every line that cannot be read, with why."""
    scan = _Scanner(_FENCE.sub("", text.removeprefix("\ufeff")))
    plan: dict[str, Any] = {"steps": []}
    problems: list[str] = []
    while scan.find_line():
        start = scan.at
        try:
            scan.read_line(plan)
            scan.require_end()
        except ShortPlanError as unread:
            number = scan.text.count("\n", 0, start) + 1
            scan.at = start
            problems.append(
                say("short_unread", number=number, line=repr(scan.describe_rest()), why=unread)
            )
            scan.skip_line(start)
        except RecursionError:
            return plan, [*problems, say("json_too_deep")]
    return plan, problems


class _Scanner:
    """Reads a text from front to back."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self._depth = text, 0, 0

    # Lines.

    def find_line(self) -> bool:
        """Go to the next line that says something; False at the end."""
        self._take_match(_NOTHING)
        self._depth = 0
        return self.at < len(self.text)

    def skip_line(self, at: int) -> None:
        end = self.text.find("\n", at)
        # What follows a broken step is its own affair: the next step begins a line.
        following = _STEP_LINE.search(self.text, end if end >= 0 else len(self.text))
        self.at = following.start() if following else len(self.text)

    def read_line(self, plan: dict[str, Any]) -> None:
        """Read one line into the plan."""
        if _STEP.match(self.text, self.at):
            plan["steps"].append(self._read_step())
        elif found := _VARIABLE.match(self.text, self.at):
            self.at = found.end()
            name = found["name"] or self._read_string()
            if not found["name"]:
                self._require_sign("]")
            self._require_sign("=")
            plan.setdefault("globalVariables", {})[name] = self.read_value()
        elif (found := _HEAD.match(self.text, self.at)) and (head := _find_heading(found["name"])):
            self.at = found.end()
            is_value = self._is_at_sign("[", "{", '"')
            _add_heading(
                plan, head, self.read_value() if is_value else self._take_match(_REST).strip()
            )
        else:
            self._fail("short_no_step")

    def require_end(self) -> None:
        """Leave the line, on which nothing more may stand."""
        if not _LINE_END.match(self.text, self.at):
            self._fail("short_too_much", text=repr(self.describe_rest()))
        self._take_match(_LINE_END)

    # Steps.

    def _read_step(self) -> dict[str, Any]:
        self._take_match(_STEP_BEGINS)
        step: dict[str, Any] = {"id": self._read_name()}
        self._require_sign("=")
        step["tool"] = self._read_name()
        self._require_sign("(")
        step["arguments"] = self._read_arguments()
        self._take_match(_BEFORE_CLAUSE)
        while self.at < len(self.text) and not self._is_at_sign("\n"):
            if found := _REMARK.match(self.text, self.at):
                self.at = found.end()
                step.setdefault("description", found[1].strip())
            else:
                self._read_clause(step)
            self._take_match(_BEFORE_CLAUSE)
        return step

    def _read_arguments(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._take_match(_ANY_SPACE)
        if self._is_at_sign("{") and not self._is_at_sign("{{"):
            found |= self.read_value()
            self._require_sign(")")
        else:
            self._read_parts(")", lambda: self._read_pair(found, once=True))
        return found

    def _read_clause(self, step: dict[str, Any]) -> None:
        start, word = self.at, self._take_match(WORD)
        field = CLAUSES.get(word.lower())
        if field is None:
            self.at = start
            self._fail("short_no_clause", word=repr(word or self.describe_rest()))
        if field in step:
            self._fail("short_name_twice", name=repr(word))
        self._take_match(_BEHIND_WORD)
        if field in CONDITIONS:
            step[field] = self._read_condition(word)
        elif field == "dependencies":
            step[field] = self._read_ids()
        elif field == "optional" and _CLAUSE_END.match(self.text, self.at):
            step[field] = True
        else:
            step[field] = self.read_value(broken=False)

    def _read_condition(self, clause: str) -> Any:
        """A JSON schema, a condition in quotes, or one without, up to the next ';'."""
        if self._is_at_sign("{") and not self._is_at_sign("{{"):
            return self.read_value(broken=False)
        start = self.at
        if self._is_at_sign('"'):
            text = self._read_string()
            if _CLAUSE_END.match(self.text, self.at):
                return text
            self.at = start
        found = self._take_match(CONDITION).strip()
        for word in WORD.findall(QUOTED.sub(" ", found)):
            if word.lower() in CLAUSES:
                self.at = start
                self._fail("short_unclear", clause=repr(clause), word=repr(word))
        return found

    def _read_ids(self) -> list[str]:
        found: list[str] = []
        if self._is_at_sign("["):
            self.at += 1
            self._read_parts("]", lambda: found.append(self._read_name()))
            return found
        while True:
            found.append(self._read_name())
            self._take_match(_SPACE)
            if not self._is_at_sign(","):
                return found
            self.at += 1

    # Values.

    def read_value(self, *, broken: bool = True) -> Any:
        """One value; `broken` says whether line breaks may stand before it."""
        self._take_match(_ANY_SPACE if broken else _SPACE)
        if self._is_at_sign('"', "'"):
            return self._read_string()
        if self._is_at_sign("{{"):
            if not REFERENCE.match(self.text, self.at):
                self._fail("reference_unclosed")
            return self._take_match(REFERENCE)
        if self._is_at_sign("[", "{"):
            return self._read_nested()
        if number := self._take_match(_NUMBER):
            return json.loads(number)
        word = WORD.match(self.text, self.at)
        if word is None or word[0] not in _CONSTANTS:
            self._fail("short_no_value", text=repr(self.describe_rest()))
        self.at = word.end()
        return _CONSTANTS[word[0]]

    def _read_nested(self) -> list[Any] | dict[str, Any]:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail("json_too_deep")
        items: list[Any] = []
        fields: dict[str, Any] = {}
        is_list = self._is_at_sign("[")
        self.at += 1
        if is_list:
            self._read_parts("]", lambda: items.append(self.read_value()))
        else:
            self._read_parts("}", lambda: self._read_pair(fields, once=False))
        self._depth -= 1
        return items if is_list else fields

    def _read_parts(self, closing: str, read: Callable[[], object]) -> None:
        """Read parts with commas between them, up to the sign that closes them."""
        self._take_match(_ANY_SPACE)
        while not self._is_at_sign(closing):
            read()
            self._take_match(_ANY_SPACE)
            if self._is_at_sign(","):
                self.at += 1
                self._take_match(_ANY_SPACE)
            elif not self._is_at_sign(closing):
                kind = "short_unclosed" if self.at >= len(self.text) else "short_no_comma"
                self._fail(kind, sign=closing, text=repr(self.describe_rest()))
        self.at += 1

    def _read_pair(self, found: dict[str, Any], *, once: bool) -> None:
        """Read a name and its value; `once` refuses a name that is there already."""
        start, is_quoted = self.at, self._is_at_sign('"', "'")
        name = self._read_string() if is_quoted else self._take_match(_PLAIN)
        self._take_match(_ANY_SPACE)
        if not (name or is_quoted) or not self._is_at_sign(":", "="):
            self.at = start
            self._fail("short_no_name", text=repr(self.describe_rest()))
        if once and name in found:
            self._fail("short_name_twice", name=repr(name))
        self.at += 1
        found[name] = self.read_value()

    def _read_string(self) -> str:
        if not (found := _TEXT.match(self.text, self.at)):
            self._fail("short_unclosed", sign=self.text[self.at])
        self.at = found.end()
        return _ESCAPE.sub(_unescape_match, found[2])

    def _read_name(self) -> str:
        """A name, in quotes where it holds odd signs."""
        self._take_match(_SPACE)
        if self._is_at_sign('"', "'"):
            return self._read_string()
        if not (name := self._take_match(_PLAIN)):
            self._fail("short_no_value", text=repr(self.describe_rest()))
        return name

    def _require_sign(self, sign: str) -> None:
        self._take_match(_ANY_SPACE)
        if not self._is_at_sign(sign):
            self._fail("short_expected", sign=repr(sign), text=repr(self.describe_rest()))
        self.at += len(sign)
        self._take_match(_SPACE)

    def _is_at_sign(self, *signs: str) -> bool:
        return self.text.startswith(signs, self.at)

    def _take_match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found[0] if found else ""

    def describe_rest(self) -> str:
        return shorten_text(self.text[self.at : self.at + 2 * _SHOWN].partition("\n")[0], _SHOWN)

    def _fail(self, kind: str, **slots: object) -> NoReturn:
        raise ShortPlanError(say(kind, **slots))


def _unescape_match(found: re.Match[str]) -> str:
    if found[1] is None:
        return str(json.loads(f'"{found[0]}"'))
    return _ESCAPES.get(found[1], found[0])


def _find_heading(name: str) -> str:
    return _HEADS.get(re.sub(r"[_ ]", "", name).lower(), "")


def _add_heading(plan: dict[str, Any], head: str, said: Any) -> None:
    if head == "leftOut":
        parts = said if isinstance(said, list) else [said]
        plan.setdefault(head, []).extend(part for part in parts if part)
    elif head == "globalVariables" and isinstance(said, dict):
        plan[head] = {**plan.get(head, {}), **said}
    else:
        plan[head] = said
