"""Every test starts without the user's settings and in a folder of its own."""

import pytest

SETTINGS = (
    "LOOPWRIGHT_MODEL",
    "LOOPWRIGHT_MCP",
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
