"""The log file of a folder that somebody else may have written."""

import logging
from pathlib import Path

import pytest

from loopwright.cli import terminal


@pytest.fixture
def logged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root, before = logging.getLogger(), list(logging.getLogger().handlers)
    monkeypatch.setattr(root, "handlers", [])
    terminal._log_to_file()

    def log(words):
        logging.getLogger("loopwright.test").error(words)

    yield log
    for handler in root.handlers:
        handler.close()
    root.handlers = before


@pytest.mark.req("W-41", "W-51")
def test_nothing_is_logged_through_a_link_that_came_with_the_folder(tmp_path, logged):
    (tmp_path / "profile").write_text("kept\n")
    (tmp_path / ".loopwright").mkdir()
    (tmp_path / ".loopwright" / "loopwright.log").symlink_to(tmp_path / "profile")
    logged("$(touch it-ran)")
    assert (tmp_path / "profile").read_text() == "kept\n"


@pytest.mark.req("W-51")
@pytest.mark.parametrize("before", [None, 0o644])
def test_the_log_is_its_owners(logged, before):
    file = Path(".loopwright/loopwright.log")
    if before:
        file.parent.mkdir()
        file.touch()
        file.chmod(before)
    logged("something went wrong")
    assert "something went wrong" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
