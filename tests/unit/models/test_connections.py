"""Connections that are kept from call to call, by each event loop its own."""

import asyncio
import gc
import socket
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel

from loopwright.models.choice import Models
from loopwright.models.openai_client import get_shared_client
from loopwright.state.context import Context
from support.fake_openai import serving

ANSWER = b"""{"id": "1", "object": "chat.completion", "created": 1, "model": "x", "choices":
[{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}"""


@contextmanager
def answering(
    hung_up: threading.Semaphore | None = None,
) -> Iterator[tuple[BaseChatModel, list[Any]]]:
    """A model at a server, and the connections it took; it may end each after its first answer."""
    taken: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            taken.append(self.client_address)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(ANSWER)))
            self.end_headers()
            self.wfile.write(ANSWER)
            if hung_up is not None:  # without having said so
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                hung_up.release()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with serving(Handler) as url:
        environ = {"OPENAI_BASE_URL": url, "LOOPWRIGHT_MODEL": "x"}
        yield Models(environ=environ).choose("planner", Context()).model, taken


async def calls(model: BaseChatModel, count: int) -> None:
    for _ in range(count):
        assert (await model.ainvoke("hi")).text == "ok"


def test_a_loop_keeps_its_connection_and_ends_with_it() -> None:
    with answering() as (model, taken), warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        for turn in range(1, 4):
            asyncio.run(calls(model, 5))
            assert len(taken) == turn
        assert not [loop for loop in get_shared_client()._open if loop.is_closed()]
        gc.collect()


def test_loops_side_by_side_share_no_connection() -> None:
    with answering() as (model, taken):
        met = threading.Barrier(4)

        async def some() -> None:
            await calls(model, 1)
            met.wait()
            await calls(model, 5)

        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(asyncio.run, some()) for _ in range(4)]:
                done.result()
        assert len(taken) == 4


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_loop_that_is_closed_without_an_end_is_let_go() -> None:
    with answering() as (model, taken):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(calls(model, 2))
        loop.close()
        asyncio.run(calls(model, 2))
        assert loop not in get_shared_client()._open
        assert len(taken) == 2
        gc.collect()
