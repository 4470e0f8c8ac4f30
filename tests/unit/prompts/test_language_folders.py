"""A language is a folder: Chinese ships beside English, any other can be added."""

import re
from pathlib import Path

import pytest

from loopwright import Context, PromptManager, ScriptedModel, build_react
from loopwright.prompts.prompt import CORE_TEMPLATES
from loopwright.state.errors import SettingsError
from loopwright.state.roles import ROLES, find_template
from loopwright.text.sentences import SENTENCES
from support.scripts import thought

ROOT = Path(__file__).parents[3] / "prompts" / "core"
SHIPPED = sorted(path.name for path in ROOT.iterdir() if (path / "planner.md").is_file())
SLOT = re.compile(r"\{\{(\w+)\}\}")
KEY = re.compile(r'"(\w+)"\s*:')
CODE = re.compile(r"\b(?:[a-z]+[A-Z]\w*|[a-z]+_[a-z_]+)\b")
TAG = re.compile(r"</?(\w+)>")
HAN = re.compile(r"[\u4e00-\u9fff]")
COMPARED = (SLOT, KEY, CODE, TAG)
OTHERS = [name for name in SHIPPED if name != "en"]


def parts(text):
    """What must be the same in each language: slots, keys, names in code, tags."""
    found = [sorted({*pattern.findall(text)}) for pattern in COMPARED]
    return [sorted(SLOT.findall(text)), *found]


@pytest.mark.req("W-64")
def test_english_and_chinese_ship_and_english_has_every_role():
    assert {"en", "zh"} <= set(SHIPPED) == set(CORE_TEMPLATES)
    assert set(CORE_TEMPLATES["en"]) == {find_template(n) for n, r in ROLES.items() if r.graph}


@pytest.mark.req("W-64")
@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("role", sorted(CORE_TEMPLATES["en"]))
def test_a_template_has_the_slots_keys_names_and_tags_of_the_english_one(language, role):
    assert parts(CORE_TEMPLATES[language][role]) == parts(CORE_TEMPLATES["en"][role])


@pytest.mark.req("W-64")
@pytest.mark.parametrize("language", OTHERS)
def test_every_sentence_is_there_with_its_slots_keys_names_and_tags(language):
    said, english = SENTENCES[language], SENTENCES["en"]
    assert set(said) == set(english), f"what stands in only one: write it in {language}, too"
    wrong = [name for name, text in english.items() if parts(said[name]) != parts(text)]
    assert wrong == []


@pytest.mark.req("W-64")
@pytest.mark.parametrize("role", sorted(CORE_TEMPLATES["zh"]))
def test_the_chinese_templates_are_chinese(role):
    text = CORE_TEMPLATES["zh"][role]
    for line in text.splitlines():
        assert HAN.search(line) or len(line) < 20 or line.startswith("{{"), line
    of_one = rf"你(?:是|处在)[^。]*（{role}）|你是一份[^。]* {role} "
    assert re.match("你用一个循环来处理用户的请求" if role == "react" else of_one, text)
    assert not re.search(r"[\u4e00-\u9fff] ?[,;!?]", text), "half-width signs between Chinese words"


@pytest.fixture
def forgotten():
    """Languages learnt in a test are none after it."""
    known, said = dict(CORE_TEMPLATES), dict(SENTENCES)
    yield
    for now, before in ((CORE_TEMPLATES, known), (SENTENCES, said)):
        now.clear()
        now.update(before)


def folder(path: Path, **files: str) -> Path:
    path.mkdir()
    for name, text in files.items():
        (path / f"{name}.md").write_text(text, encoding="utf-8")
    return path


THOUGHT = "Bist du dran? {{businessContext}} {{resourceId}} {{taskId}} {{tools}}"
SAID = "# Sätze\n\n## what_next\nWas nun?\n\n## answer_again\nNein: {{problems}} Also {{wanted}}.\n"


@pytest.mark.req("W-64")
@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("how", ["manager", "run"])
def test_a_language_of_ones_own_is_a_folder(tmp_path, how):
    own = folder(
        tmp_path / "xx", thought=THOUGHT, sentences=SAID,
        empty_phrases="## Say nothing\n- [ganz] (fix)\n",
    )  # fmt: skip
    prompts = PromptManager(language=own)
    context = Context()
    if how == "run":
        prompts, context = PromptManager(), Context(language="xx-XX")
    model = ScriptedModel({"thought": [thought("Ganz fix."), thought("Ada hat es.")]})
    graph = build_react(model=model, prompts=prompts)
    outcome = graph.invoke({"messages": [("user", "Wer?")]}, context=context)["outcome"]
    assert (outcome["status"], outcome["answer"]) == ("complete", "Ada hat es.")
    first, second = model.asked
    assert first.messages[0].text.startswith("Bist du dran?")
    assert second.messages[-1].text.startswith("Nein: - the answer says nothing"), (
        "what a language leaves out is said in English"
    )
    assert PromptManager(language="xx").get_prompt("planner").startswith("You are the planner")


@pytest.mark.req("W-64")
@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "holds no language"),
        ({"thought": "Ohne Platz"}, r"thought.md must hold the slot \{\{businessContext\}\}"),
        ({"sentences": "## what_next\n{{when}}\n"}, r"'what_next' has the slots \['when'\]"),
        ({"sentences": "## what_nxt\nWas\n"}, "'what_nxt' has no meaning"),
    ],
)  # fmt: skip
def test_a_folder_that_does_not_fit_is_refused_with_a_sentence(tmp_path, files, told):
    with pytest.raises(SettingsError, match=told):
        PromptManager(language=folder(tmp_path / "xx", **files))
    assert "xx" not in CORE_TEMPLATES
