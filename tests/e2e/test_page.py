"""The components in a real browser: what they draw, what they send back, what never runs."""

import pytest

from loopwright.state.questions import Answer, make_question
from loopwright.stream.components import COMPONENTS
from support.browser import component, needs_browser, opened

pytestmark = needs_browser

RUN = "globalThis.executed('hostile')"
HOSTILE = [
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"<img src=x onerror=\"{RUN}\">",
    f"<svg onload=\"{RUN}\">",
    f"<svg><script>{RUN}</script></svg>",
    "<iframe srcdoc=\"<script>parent.executed('hostile')</script>\"></iframe>",
    f"<iframe src=\"javascript:{RUN}\"></iframe>",
    f"<body onload=\"{RUN}\">",
    f"<details open ontoggle=\"{RUN}\">",
    f"<input autofocus onfocus=\"{RUN}\">",
    f"<video><source onerror=\"{RUN}\"></video>",
    f"<object data=\"javascript:{RUN}\"></object>",
    f"<embed src=\"javascript:{RUN}\">",
    f"<a href=\"javascript:{RUN}\">click</a>",
    f"<form action=\"javascript:{RUN}\"><button>send</button></form>",
    f"<math><mtext><table><mglyph><style><img src=x onerror=\"{RUN}\">",
    f"<template><img src=x onerror=\"{RUN}\"></template>",
    f"<style>@import 'javascript:{RUN}'</style>",
    f"</style><img src=x onerror=\"{RUN}\">",
    f"</textarea><img src=x onerror=\"{RUN}\">",
    f"--><img src=x onerror=\"{RUN}\">",
    f"]]><img src=x onerror=\"{RUN}\">",
    f"javascript:{RUN}",
    f"JaVaScRiPt:{RUN}",
    f"\x01javascript:{RUN}",
    f"java\tscript:{RUN}",
    f"data:text/html,<script>{RUN}</script>",
    f"vbscript:{RUN}",
    f"blob:{RUN}",
    f"https://x.example/\"onmouseover=\"{RUN}",
    f"[click](javascript:{RUN})",
    "{{constructor.constructor('" + RUN + "')()}}",
    "${" + RUN + "}",
    "{{shadowRootId}}",
    "\u202egnp.exe\u2066",
    "__proto__",
]  # fmt: skip
PLAIN = {
    "section", "style", "header", "span", "p", "ul", "li", "details", "summary", "code", "pre",
    "dl", "div", "dt", "dd", "a", "svg", "g", "rect", "path", "text", "title", "button", "textarea",
    "label",
}  # fmt: skip


def with_everywhere(name, text):
    """Props of a component with this text wherever one may stand, also as a key."""
    todo = {"id": text, "description": text, "status": text, "depends_on": [text], "tool": text}
    resource = {"name": text, "uri": text, "description": text, "mime_type": text,
                "details": {text: text, "deep": {text: [text]}}}  # fmt: skip
    every = {
        "summary": text, "todos": [todo], "missing_information": [text], "task": text, "id": text,
        "description": text, "status": text, "feedback": text, "improvements": [text],
        "tasks": [{"id": text, "completed": False, "feedback": text}], "reason": text,
        "unmet": [text], "warnings": [text], "steps": [todo, todo | {"id": "2"}], "tool": text,
        "arguments": {text: text}, "result": text, "reused_from": text, "kind": text,
        "action": {"name": text, "args": {text: text}}, "resources": [resource], "source": text,
        "target": text, "reference": text, "streaming": True,
    }  # fmt: skip
    titled = {} if name == "approval" else {"title": text}
    return resource | every | titled


@pytest.mark.req("S0-86", "S0-91")
def test_nothing_hostile_runs_in_any_component(tmp_path):
    items = [
        component(
            name,
            with_everywhere(name, text),
            f"{name}-{place}",
            "call" if name == "tool-call" else "m",  # beside its question it says nothing
        )
        for place, text in enumerate(HOSTILE)
        for name in COMPONENTS
    ]
    items += [component(text, {"text": text}, f"named-{n}") for n, text in enumerate(HOSTILE)]
    items += [
        component("todo-list", {"todos": text, "text": text}, f"bad-{n}")
        for n, text in enumerate(HOSTILE)
    ]
    asked = make_question("write_file", {"path": HOSTILE[2]}, HOSTILE[0])
    stream = {
        "messages": [{"id": "m", "content": text} for text in HOSTILE],
        "interrupts": [{"id": HOSTILE[0], "value": {"id": HOSTILE[0], **asked}}],
    }
    does = [{"item": list(COMPONENTS).index("approval"), "press": "Change …"}]
    seen = opened(tmp_path, items, stream=stream, does=does)
    assert seen["executed"] == []
    assert len(seen["drawn"]) == len(items)
    for item, drawn in zip(items, seen["drawn"], strict=True):
        assert set(drawn["tags"]) <= PLAIN, item
        assert drawn["handlers"] == [], item
        assert all(link.startswith(("http://", "https://")) for link in drawn["links"]), item
        assert drawn["words"], item
        assert "” failed." not in drawn["words"], item
    assert f'<img src=x onerror="{RUN}">' in seen["drawn"][2 * len(COMPONENTS)]["words"]


@pytest.mark.req("S0-87", "S0-89", "S0-97", "S0-99")
def test_what_cannot_be_drawn_is_there_as_text(tmp_path):
    seen = opened(tmp_path, [
        component("no-such-card", {"text": "Three oranges"}),
        component("no-such-card", {"oranges": 3}),
        component("todo-list", {"todos": "1. Look"}),
        component("todo-list", {"todos": [{"id": "1", "description": 7}]}),
        component("executor-response", {"summary": "no task is named"}),
        component("todo-list", {"todos": [{"id": "1", "description": "Look", "colour": "red"}]}),
    ])  # fmt: skip
    unknown, bare, no_list, deep, incomplete, more = (one["words"] for one in seen["drawn"])
    assert unknown == "There is no component “no-such-card”.Three oranges"
    assert '"oranges": 3' in bare
    assert no_list.startswith("“todo-list” cannot show this: props.todos is no array.")
    assert "1. Look" in no_list
    assert "props.todos[0].description is no string" in deep
    assert "props.task is missing" in incomplete
    assert more.startswith("Tasks0 of 1 done")
    assert "red" not in more


@pytest.mark.req("S0-92", "S0-93", "S0-100")
def test_a_plan_is_drawn_as_far_as_it_is_written(tmp_path):
    def plan(*todos, **more):
        return {"todos": [{"id": i, "description": d} for i, d in todos], **more}

    steps = [
        {"item": 0, "then": {"item": 0, "props": props}, "live": live}
        for props, live in [
            (plan(("1", "Look"), streaming=True), True),
            (plan(("1", "Look"), ("2", "Wri"), streaming=True), True),
            (plan(("1", "Look"), ("2", "Wri"), streaming=True), False),
            (plan(("1", "Look"), ("2", "Write"), summary="Two steps."), False),
        ]
    ]
    items = [component("planner-response", {"streaming": True}, key) for key in ("a", "b")]
    begun = {"item": 1, "live": True}
    seen = opened(tmp_path, items, stream={"isLoading": True}, does=[begun, *steps])
    assert seen["heard"] == [
        "PlanWorking on it …", "Plan○1 · Look", "Plan○1 · Look○2 · Wri", "Plan○1 · Look○2 · Wri",
        "PlanTwo steps.○1 · Look○2 · Write",
    ]  # fmt: skip
    assert seen["drawn"][1]["words"] == "PlanThere is no plan yet."


CALL = {"path": "a.md", "size": 3, "tags": ["x"]}


def asking(*names):
    """Approvals of calls, and a page on which all of them are open."""
    asked = make_question("write_file", CALL, "Write a.md?")
    items = [
        component("approval", {"id": name, "action": {"name": "write_file", "args": CALL}}, name)
        for name in names
    ]
    values = [{"type": "tool_approval", "id": name, **asked} for name in names]
    return items, {"interrupts": [{"id": f"i-{v['id']}", "value": v} for v in values]}


ANSWERS = {
    "approve": ([{"press": "Approve"}], {"type": "approve"}),
    "always": ([{"press": "Always"}], {"type": "approve", "remember": "tool"}),
    "reject": (
        [{"press": "Reject …"}, {"type": [0, "not now"]}, {"press": "Reject"}],
        {"type": "reject", "message": "not now"},
    ),
    "respond": (
        [{"press": "Answer …"}, {"type": [0, "It is there."]}, {"press": "Send"}],
        {"type": "respond", "message": "It is there."},
    ),
    "edit": (
        [{"press": "Change …"}, {"type": [0, "b.md"]}, {"type": [1, "four"]}, {"press": "Send"},
         {"type": [1, "4"]}, {"press": "Send"}],
        {"type": "edit", "args": {"path": "b.md", "size": 4, "tags": ["x"]}},
    ),
}  # fmt: skip


@pytest.mark.req("W-149")
def test_a_call_and_its_question_are_one_block(tmp_path):
    """The question while it is open; then the call, which says what became of it."""
    items, stream = asking("open")
    approval = {"action": {"name": "write_file", "args": CALL}}
    items += [
        component("tool-call", {"id": name, "tool": f"write {name}"}, f"{name}-call")
        for name in ("open", "next", "done", "no")
    ]
    for name, answered in (("next", ""), ("done", "approve"), ("no", "reject")):
        items.append(component("approval", {"id": name, "answered": answered, **approval}, name))
    words = [drawn["words"] for drawn in opened(tmp_path, items, stream=stream)["drawn"]]
    assert ["Approve" in text for text in words] == [True] + [False] * 7
    assert [bool(text) for text in words] == [True, False, True, True, True, False, False, True]


@pytest.mark.req("W-149")
def test_a_call_of_an_earlier_turn_is_not_asked_about_again(tmp_path):
    """Each turn counts its calls anew."""
    items, stream = asking("r.1", "r.1")
    items[0]["props"] |= {"answered": "approve"}
    for place in range(2):
        items[place] |= {"id": f"{place}.approval", "metadata": {"message_id": str(place)}}
        items.append(component("tool-call", {"id": "r.1", "tool": "w"}, f"{place}", str(place)))
    del stream["interrupts"][0]
    words = [drawn["words"] for drawn in opened(tmp_path, items, stream=stream)["drawn"]]
    assert ["Approve" in text for text in words] == [False, True, False, False]
    assert [bool(text) for text in words] == [False, True, True, False]


@pytest.mark.req("S0-94", "S0-96", "S1-45")
def test_an_answer_is_one_that_the_question_takes_and_is_sent_to_that_question_once(tmp_path):
    items, stream = asking(*ANSWERS)
    does = []
    for place, (steps, _) in enumerate(ANSWERS.values()):
        does += [{"item": place, **step} for step in steps]
        does += [{"item": place, "press": steps[-1]["press"]}]
    seen = opened(tmp_path, items, stream=stream, does=does)
    assert len(seen["submitted"]) == len(ANSWERS), "nothing is answered twice"
    for (name, (_, said)), (_, options) in zip(ANSWERS.items(), seen["submitted"], strict=True):
        assert options["command"] == {"resume": {f"i-{name}": said}}
        assert options["streamResumable"]
        assert Answer.model_validate(said).type == said["type"]
    assert "Not JSON: size" in seen["heard"][-5]
    assert seen["heard"][-4] == "no button Send", "what is no JSON is not sent"
    assert seen["heard"][-1].startswith("no button")


@pytest.mark.req("S0-94")
def test_tasks_of_a_plan_are_moved_skipped_and_worded_anew(tmp_path):
    todos = [
        {"id": "1", "description": "Look", "priority": 1},
        {"id": "2", "description": "Call", "priority": 2, "depends_on": ["1"]},
        {"id": "3", "description": "Write", "priority": 3, "depends_on": ["1", "2"]},
    ]
    words = "1. Look\n2. Call\n3. Write"
    asked = make_question("review_plan", {"todos": todos}, f"Run this plan?\n{words}")
    item = component("approval", {"id": "q", "kind": "review_plan", "description": words})
    does = [{"press": "Change …"}, {"type": [2, "Write it down"]}, {"press": "Up"}]
    does += [{"press": "Down"}, {"press": "Skip"}, {"press": "Run this plan"}]
    seen = opened(
        tmp_path, [item], stream={"interrupts": [{"id": "e" * 32, "value": asked}]},
        does=[{"item": 0, **step} for step in does],
    )  # fmt: skip
    (sent,) = seen["submitted"]
    said = sent[1]["command"]["resume"]["e" * 32]
    assert seen["heard"][2] == "no button Up", "the first one has nowhere to go"
    assert said == {"type": "edit", "args": {"todos": [
        {"id": "1", "description": "Look", "priority": 1},
        {"id": "3", "description": "Write it down", "priority": 2, "depends_on": ["1"]},
    ]}}  # fmt: skip


@pytest.mark.req("S0-90", "S0-98")
def test_a_component_of_ones_own_is_registered_at_run_time(tmp_path, monkeypatch):
    monkeypatch.setattr("support.browser.app", with_own(tmp_path))
    seen = opened(tmp_path, [
        component("weather", {"place": "Utrecht", "<b>": 1}), component("boom", {"text": "As text"})
    ])  # fmt: skip
    assert [one["words"] for one in seen["drawn"]] == [
        "WeatherUtrecht", "“boom” failed.As text",
    ]  # fmt: skip


def with_own(folder):
    from starlette.applications import Starlette  # noqa: PLC0415 - of this test alone

    from loopwright.ui.routes import build_routes, build_script  # noqa: PLC0415 - of this test alone

    own = folder / "own.js"
    own.write_text(OWN)
    return Starlette(routes=build_routes(build_script({"LOOPWRIGHT_COMPONENTS": str(own)})))


OWN = """
{
  const ui = globalThis[Symbol.for("LOOPWRIGHT_UI")];
  const { parts: { Card, Words }, createElement, register } = ui;
  register("weather", ({ props, around }) =>
    createElement(Card, { common: {}, around, title: "Weather" },
      createElement(Words, null, props.place)));
  register("boom", () => { throw new Error("no"); });
}
"""


def test_the_answer_of_the_message_above_is_not_said_twice(tmp_path):
    done = {"task": "1", "description": "Look", "status": "completed", "summary": "Nine to five."}
    items = [component("executor-response", done), component("executor-response", done, under="x")]
    message = {"id": "m", "content": [{"type": "text", "text": "1. Nine to five."}]}
    stream = {"messages": [None, message], "interrupts": [None]}  # as Agent Chat UI has at times
    under, other = (one["words"] for one in opened(tmp_path, items, stream=stream)["drawn"])
    assert "Nine to five." not in under
    assert "Nine to five." in other
