"""A model that always tries, on a server that trusts everybody: no forbidden write."""

import pytest
from hypothesis import settings

from loopwright import open_durability
from support.forger import Attack, World

SEQUENCES = settings().max_examples
"""50 for each graph; 1,000 with the profile `thorough`."""


@pytest.mark.parametrize("kind", ["react", "customer_service"])
def test_no_sequence_of_calls_makes_a_forbidden_write(kind, tmp_path):
    world = World(tmp_path)
    with open_durability(f"sqlite:///{tmp_path}/t.db") as kept:
        attack = Attack(world, kept, kind)
        for seed in range(SEQUENCES):
            attack.run(seed)
    wrong, made = world.wrong_writes(attack.agreed)
    assert wrong == []
    assert made > SEQUENCES / 25  # what the policy allows got through
    assert max(attack.per_turn) == 1
