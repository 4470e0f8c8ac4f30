"""The chat of the example shop, as its manual page shows it: one command, no key."""

from support.docs_text import PAGES, blocks
from support.forked import Command, server
from support.patience import PATIENCE
from support.shops import SHOP


def test_the_conversation_of_the_manual_is_had_without_a_key(tmp_path):
    texts = blocks("text", PAGES["docs/customer-service.md"])
    [shown] = [text for text in texts if "examples/shop/chat.py" in text]
    command, _, conversation = shown.partition("\n\n")
    assert command == ".venv/bin/python examples/shop/chat.py"
    args, script = ("--out", str(tmp_path)), SHOP / "chat.py"
    with Command(server(), args, stdin=conversation, env={}, script=script) as chat:
        code, (out, wrong) = chat.wait(PATIENCE), chat.said()
    assert (code, wrong) == (0, "")
    for text in (
        "Hello, this is Lumen.",
        "[kb-lampclean-juno-en]",
        "No language model is configured",
        "How satisfied are you",
        "Thank you for choosing Lumen.",
    ):
        assert text in out
