"""Every test starts without the user's settings and in a folder of its own."""

import signal

import pytest

# A suite started in the background inherits an ignored Ctrl-C; the tests, and the processes they
# start, are about one that works.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SETTINGS = (
    "LOOPWRIGHT_MODEL",
    "LOOPWRIGHT_MCP",
    "LOOPWRIGHT_POLICY",
    "LOOPWRIGHT_DATABASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path):
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
