"""What the command changes in its process is put back after each test."""

import logging

import pytest


@pytest.fixture(autouse=True)
def logging_as_before():
    root, before = logging.getLogger(), logging.getLogger().handlers[:]
    yield
    for handler in [h for h in root.handlers if h not in before]:
        root.removeHandler(handler)
        handler.close()
    logging.captureWarnings(capture=False)
