"""What the command changes in its process is put back after each test."""

import logging
import signal

import pytest


@pytest.fixture(autouse=True)
def logging_as_before():
    root = logging.getLogger()
    for handler in [h for h in root.handlers if isinstance(h, logging.FileHandler)]:
        root.removeHandler(handler)  # of a command that another test ran, in another folder
        handler.close()
    before = root.handlers[:]
    yield
    for handler in [h for h in root.handlers if h not in before]:
        root.removeHandler(handler)
        handler.close()
    logging.captureWarnings(capture=False)


@pytest.fixture(autouse=True)
def signals_as_before():
    """A command that was interrupted ignores signals from then on: its process is about to end."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
