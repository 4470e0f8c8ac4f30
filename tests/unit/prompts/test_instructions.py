"""AGENTS.md and skills: what is read of the folders that are named, and what is not, and why."""

import os

import pytest

from loopwright.prompts.instructions import (
    read_instructions,
)
from loopwright.state.errors import SettingsError
from loopwright.state.limits import LIMITS

HEAD = "---\nname: {}\ndescription: {}\n---\n"


def skill(folder, name="report", about="Writes reports.", body="Write it in three parts."):
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(HEAD.format(name, about) + body)


def test_of_a_folder_its_agents_file_and_the_skills_in_the_usual_places_are_read(tmp_path):
    (tmp_path / "AGENTS.md").write_text("\ufeffUse tabs. {{businessContext}} stays.\n", "utf-8")
    for place, name in [("a", "a"), ("skills/b", "b"), (".agents/skills/c", "c")]:
        skill(tmp_path / place, name)
    skill(tmp_path / ".claude/skills/d", "d", '"With: a colon"')
    (tmp_path / "a" / "refs").mkdir()
    (tmp_path / "a" / "refs" / "more.md").write_text("More.")
    known = read_instructions(tmp_path)
    assert [*known.skills] == ["a", "b", "c", "d"]
    assert known.problems == ()
    assert "Use tabs. {{businessContext}} stays." in known.render_text()
    assert "- d: With: a colon" in known.render_text()
    assert "three parts" not in known.render_text()
    assert known.read_skill("a").startswith("Write it in three parts.")
    assert known.read_skill("a").endswith("refs/more.md")
    assert known.read_skill("a", "refs/more.md") == "More."
    assert known.read_skill("b") == "Write it in three parts."


def test_each_folder_or_file_that_cannot_be_followed_is_refused_with_a_sentence(tmp_path):
    outside = tmp_path / "outside.md"
    outside.write_text("secret")
    cases = {"missing": "no folder", "": "no folder", "empty": "has no AGENTS.md"}
    for name in ("empty", "link", "huge", "binary", "folder", "broken"):
        (tmp_path / name).mkdir()
    (tmp_path / "link" / "AGENTS.md").symlink_to(outside)
    (tmp_path / "broken" / "AGENTS.md").symlink_to(tmp_path / "nowhere")
    (tmp_path / "huge" / "AGENTS.md").write_text("x" * (LIMITS["instructions"].bytes + 1))
    (tmp_path / "binary" / "AGENTS.md").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "folder" / "AGENTS.md").mkdir()
    cases |= {
        "link": "leads out of",
        "huge": "32,001 bytes, and at most 32,000",
        "folder": "no file",
    }
    cases |= {"binary": "no UTF-8 text", "broken": "cannot be read"}
    for name, words in cases.items():
        with pytest.raises(SettingsError, match=words):
            read_instructions(tmp_path / name if name else "")


def test_a_skill_that_cannot_be_used_is_left_out_and_said(tmp_path):
    (tmp_path / "AGENTS.md").write_text("x")
    (tmp_path / "outside.md").write_text(HEAD.format("out", "y"))
    root = tmp_path / "named"
    skill(root / "good", "good")
    skill(root / "twice", "good")
    bad = {
        "plain": "Just words.",
        "open": "---\nname: x\n",
        "yaml": "---\nname: [x\n---\n",
        "list": "---\n- name\n---\n",
        "nameless": "---\ndescription: x\n---\n",
        "number": "---\nname: 7\ndescription: x\n---\n",
        "long": HEAD.format("long", "x" * 1_025),
        "code": "---\nname: !!python/object/apply:os.system [ls]\n---\n",
    }
    for name, text in bad.items():
        (root / name).mkdir()
        (root / name / "SKILL.md").write_text(text)
    (root / "linked").mkdir()
    (root / "linked" / "SKILL.md").symlink_to(tmp_path / "outside.md")
    known = read_instructions(root)
    assert [*known.skills] == ["good"]
    assert len(known.problems) == len(bad) + 2
    for name in [*bad, "linked", "twice"]:
        (said,) = (problem for problem in known.problems if f"{root / name} " in problem)
        assert "is left out: " in said
        assert said.endswith(".")
        assert "\n" not in said


def test_what_changes_after_it_was_read_is_no_instruction(tmp_path):
    (tmp_path / "AGENTS.md").write_text("Old.")
    skill(tmp_path / "report")
    known = read_instructions([tmp_path, tmp_path])
    assert known.list_changed() == []
    (tmp_path / "AGENTS.md").write_text("New and longer.")
    (changed,) = known.list_changed()
    assert changed.startswith(f"{tmp_path / 'AGENTS.md'} has changed since it was read")
    assert "Old." in known.render_text()
    (tmp_path / "report" / "SKILL.md").write_text(HEAD.format("report", "x") + "Send it to me.")
    with pytest.raises(ValueError, match="has changed since it was listed"):
        known.read_skill("report")
    assert "New and longer." in read_instructions(tmp_path).render_text()


@pytest.mark.req("W-124")
@pytest.mark.parametrize("file", ["SKILL.md", "refs/more.md"])
def test_what_is_written_anew_with_the_same_size_and_time_is_no_instruction(tmp_path, file):
    """Its digest is kept from when the graph was built; a file that comes later has none."""
    skill(tmp_path / "report", body="Ask Ada.")
    path = tmp_path / "report" / file
    (tmp_path / "report" / "refs").mkdir()
    (tmp_path / "report" / "refs" / "more.md").write_text("Ask Ada.")
    known, named = read_instructions(tmp_path), "" if file == "SKILL.md" else file
    assert "Ask Ada." in known.read_skill("report", named)
    before = path.stat()
    path.write_text(path.read_text().replace("Ada", "Eve"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    (tmp_path / "report" / "late.md").write_text("Ask Eve.")
    for changed in (named, "late.md"):
        with pytest.raises(ValueError, match="has changed since it was listed"):
            known.read_skill("report", changed)
    assert "Ask Eve." in read_instructions(tmp_path).read_skill("report", named)


@pytest.mark.parametrize("file", ["../outside.md", "link.md", "gone.md", "/etc/hostname", "."])
def test_a_file_beside_a_skill_is_read_only_from_its_folder(tmp_path, file):
    skill(tmp_path / "report")
    (tmp_path / "outside.md").write_text("secret")
    os.symlink(tmp_path / "outside.md", tmp_path / "report" / "link.md")
    with pytest.raises(ValueError, match=r"leads out|cannot be read|is no file"):
        read_instructions(tmp_path).read_skill("report", file)
