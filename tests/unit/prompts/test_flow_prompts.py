"""What the four roles of prompt_flow are told."""

import re

from loopwright.flow.expectations import find_check_flaw
from loopwright.prompts.prompt import CORE_TEMPLATES

ENGLISH = CORE_TEMPLATES["en"]


def test_the_conditions_of_which_the_planner_is_told_are_conditions():
    text = ENGLISH["flow_planner"]
    [line] = [line for line in text.splitlines() if line.startswith("- A condition is ")]
    told = re.fullmatch(
        r"- A condition is PATH or (length)\(PATH\) and one of (.+) with a value, "
        r"or (.+); several are joined by (and)\.",
        line,
    )
    length, compared, states, joint = told.groups()
    wanted = [f"rows[0].name {word} 1" for word in compared.split(", ")]
    wanted += [f"rows {word}" for word in states.split(", ")]
    assert len(wanted) == 11
    assert not any(find_check_flaw(check) for check in [*wanted, f" {joint} ".join(wanted)])
    assert not find_check_flaw(f"{length}(rows) > 0")
    [shown] = re.findall(r'a condition such as "(.+?)"', text)
    assert not find_check_flaw(shown)
