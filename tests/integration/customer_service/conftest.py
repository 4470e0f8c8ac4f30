"""A shop of Python tools and an SQLite file, for tests of what a policy guards."""

import pytest

from loopwright import open_durability
from support.guarded import Shop


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


@pytest.fixture
def kept(tmp_path):
    with open_durability(f"sqlite:///{tmp_path}/t.db") as durability:
        yield durability
