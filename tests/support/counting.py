"""A proxy before a PostgreSQL server that counts how often a client waits for it."""

import socket
import threading
from contextlib import suppress
from typing import Self


class Counting:
    """Listens on 127.0.0.1 and hands everything on.

    Attributes:
        port: Where it listens.
        trips: How often a client has sent something after it was answered.
    """

    def __init__(self, to: int) -> None:
        self.trips = 0
        self._to = to
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                answered = threading.Event()
                for ask, way in ((True, (client, server)), (False, (server, client))):
                    work = threading.Thread(target=self._hand_on, args=(ask, answered, *way))
                    work.daemon = True
                    work.start()

    def _hand_on(
        self, ask: bool, answered: threading.Event, one: socket.socket, other: socket.socket
    ) -> None:
        with suppress(OSError):
            while data := one.recv(65_536):
                if not ask:
                    answered.set()
                elif answered.is_set():
                    answered.clear()
                    self.trips += 1
                other.sendall(data)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
