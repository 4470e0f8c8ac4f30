"""A model that always tries, on a server that trusts everybody: no forbidden write."""

import pytest
from hypothesis import settings

from loopwright import open_durability
from support.forger import Attack, World

SEQUENCES = settings().max_examples // 2
"""Of both graphs; 500 with the profile `thorough`."""


@pytest.mark.parametrize(("kind", "first"), [("react", 0), ("customer_service", 1)])
def test_no_sequence_of_calls_makes_a_forbidden_write(kind, first, tmp_path):
    world = World(tmp_path)
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        attack = Attack(world, kept, kind)
        for seed in range(first, SEQUENCES, 2):
            attack.run(seed)
    wrong, made = world.wrong_writes(attack.agreed)
    assert wrong == []
    assert made >= SEQUENCES / 50  # what the policy allows got through
    assert max(attack.per_turn) == 1
