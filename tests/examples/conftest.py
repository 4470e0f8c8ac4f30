"""The shop of the examples, made once for the tests of a file; none of them changes it."""

from pathlib import Path

import pytest

from support.shops import LUMEN, make_shop


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "shop.db"
    make_shop(LUMEN, path)
    return path
