"""Talk to the desk of an example shop, one message a line.

    python examples/shop/chat.py [--company lumen|yunling] [--out FOLDER] [--model provider:name]

It makes the shop, starts its MCP server and ends with its input. Without --model the stand-in
answers, and no key is needed. Needs requirements.txt of this folder.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from seed import make_shop
from stand_in import stand_in

from loopwright import build_customer_service, open_durability

HERE = Path(__file__).parent


def talk(graph: Any) -> Iterator[str]:
    """What the customer is told, message by message."""
    config: Any = {"configurable": {"thread_id": uuid4().hex}}
    for line in filter(str.strip, sys.stdin):
        state = graph.invoke({"messages": [("user", line.strip())]}, config)
        messages = state["messages"]
        said = max(place for place, message in enumerate(messages) if message.type == "human")
        for message in messages[said:]:
            if message.type == "ai" and not message.tool_calls:
                yield message.text


def main() -> None:
    """Talk until the input ends."""
    parser = argparse.ArgumentParser(description="Talk to the desk of an example shop.")
    parser.add_argument("--company", default="lumen", help="the folder of a company, beside this")
    parser.add_argument("--out", type=Path, default=Path("build/shop"), help="where files go")
    parser.add_argument("--model", help="provider:name; without it the stand-in answers")
    chosen = parser.parse_args()
    out = chosen.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    company, shop = HERE / chosen.company, out / f"{chosen.company}.db"
    make_shop(company, shop)
    desk = {"command": sys.executable, "args": [str(HERE / "support_desk.py"), "--shop", str(shop)]}
    with open_durability(f"sqlite:///{out / 'threads.db'}") as durability:
        graph = build_customer_service(
            model=chosen.model or stand_in(),
            mcp={"desk": desk},
            company=company,
            durability=durability,
        )
        for text in talk(graph):
            print(text, flush=True)  # noqa: T201 - a program for the terminal


if __name__ == "__main__":
    main()
