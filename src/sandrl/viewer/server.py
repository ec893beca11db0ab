"""The viewer as a server on this machine, from its start until the user stops it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvicorn

from sandrl.errors import InputError, ServiceError, UsageError
from sandrl.settings import Settings
from sandrl.viewer.app import View
from sandrl.viewer.guard import TOKEN, Guard
from sandrl.viewer.library import Library

HOST = "127.0.0.1"
PORT = 8643
"""The default port of the viewer; if it is taken, the next free port is used."""

_WAITING_CONNECTIONS = 128
_ENDING_SECONDS = 2
_LOOK_SECONDS = 0.01


def make_library(settings: Settings, runs_dir: Path | None) -> Library:
    """The runs of a directory; without one, those of the usual directory and of the user's index.

    Raises:
        InputError: If there is no such directory.
    """
    if runs_dir is None:
        return Library(settings.runs_dir.absolute(), settings.state_dir, settings.cache_dir)
    if not runs_dir.is_dir():
        what = "is a file, not a directory" if runs_dir.exists() else "this directory does not exist"
        raise InputError(what, path=runs_dir, hint="name the directory that contains the runs")
    return Library(runs_dir.absolute(), None, settings.cache_dir)


@contextmanager
def serving(library: Library, port: int | None = None) -> Iterator[Viewer]:
    """Serves runs for the length of a `with` block on a port: None for the usual one or any, 0 for any.

    Raises:
        UsageError: If the port is taken.
        ServiceError: If the server does not start.
    """
    with ExitStack() as stack:
        listening = stack.enter_context(_listening(port))
        stack.callback(library.close)
        viewer = Viewer(library, listening)
        stack.callback(viewer.close)
        viewer.start()
        yield viewer


class Viewer:
    """A server that serves.

    Attributes:
        link: The same with the token, without which it answers nobody.
    """

    def __init__(self, library: Library, listening: socket.socket) -> None:
        port: int = listening.getsockname()[1]
        self._view = View(library)
        guard = Guard(self._view.app(), port)
        self.address = f"http://{HOST}:{port}/"
        self.link = f"{self.address}?{TOKEN}={guard.token}"
        self._listening = listening
        settings = uvicorn.Config(
            guard,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            http="h11",
            ws="none",
            backlog=_WAITING_CONNECTIONS,
            timeout_graceful_shutdown=_ENDING_SECONDS,
        )
        self._uvicorn = uvicorn.Server(settings)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="sandrl-view", daemon=True)

    def start(self) -> None:
        """Serves from here on.

        Raises:
            ServiceError: If it does not start.
        """
        self._thread.start()
        while not self._uvicorn.started:
            self.check()
            time.sleep(_LOOK_SECONDS)

    def check(self) -> None:
        """Makes sure that it serves.

        Raises:
            ServiceError: If it has ended by itself.
        """
        if not self._thread.is_alive():
            raise ServiceError(f"the server of the viewer ended: {self._error}") from self._error

    def close(self) -> None:
        """Ends it, with the streams that are open."""
        self._view.is_closing.set()
        self._uvicorn.should_exit = True
        self._thread.join(2 * _ENDING_SECONDS)

    def _run(self) -> None:
        try:
            self._uvicorn.run([self._listening])
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._error = error


@contextmanager
def _listening(port: int | None) -> Iterator[socket.socket]:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        choices = (PORT, 0) if port is None else (port,)
        for choice in choices:
            try:
                listening.bind((HOST, choice))
                listening.listen(_WAITING_CONNECTIONS)
                break
            except OSError as error:
                if choice == choices[-1]:
                    message = f"cannot listen on port {choice}: {error.strerror}"
                    hint = "choose another `port`, or 0 for any free port"
                    raise UsageError(message, hint=hint, fields=("port",)) from error
        yield listening
