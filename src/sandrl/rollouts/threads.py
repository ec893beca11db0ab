"""Runs many episodes at once, each in its own thread, until all of them end or the caller stops.

An episode mostly waits, for a model or for a sandbox, so one thread per episode is enough. The threads are daemons:
episodes that are given up are not waited for, even if an endpoint keeps its socket open. The caller receives each
episode when it ends, in one thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeAlias

from sandrl.models.client import Stopped
from sandrl.models.protocol import Player
from sandrl.rollouts.episodes import Episode, EpisodeOptions, play
from sandrl.rollouts.shared_job import SharedJob
from sandrl.sandboxes import Interrupt, Level

# How long an episode waits that does not fit into a budget, if none ends meanwhile.
_LOOK_SECONDS = 0.2

OnEnd: TypeAlias = Callable[[Episode, float], None]
"""Called with an episode that has ended, and its duration in seconds."""


def play_all(
    episodes: Sequence[Episode],
    model: Player,
    place: SharedJob,
    options: EpisodeOptions,
    *,
    concurrency: int,
    interrupt: Interrupt,
    on_end: OnEnd,
    on_request: Callable[[int], None],
    may_begin: Callable[[int], bool] = lambda _: True,
    finishes_all: bool = True,
) -> int:
    """Plays episodes.

    Args:
        interrupt: A request to stop. The first lets the batch be finished; the second ends it.
        on_request: Called after a request to stop, with the number of running episodes.
        may_begin: Whether one more may begin beside so many, as a budget allows; asked again when one has ended.
        finishes_all: Whether episodes that have not begun belong to what the first request lets be finished.

    Returns:
        How many were given up.

    Raises:
        SandrlError: What no episode can go on with, such as refused credentials.
    """
    waiting: SimpleQueue[Episode] = SimpleQueue()
    for episode in episodes:
        waiting.put(episode)
    ended: SimpleQueue[tuple[Episode, float] | Exception | None] = SimpleQueue()
    turn = threading.Condition()
    playing = 0

    def is_over() -> bool:
        return interrupt.is_exhausted or bool(interrupt.level and not finishes_all)

    def begin() -> bool:
        nonlocal playing
        with turn:
            while not is_over() and not may_begin(playing):
                turn.wait(_LOOK_SECONDS)
            may = not is_over()
            playing += may
            return may

    def leave() -> None:
        nonlocal playing
        with turn:
            playing -= 1
            turn.notify_all()
        if is_over():
            ended.put(None)

    def work() -> None:
        try:
            while True:
                episode = waiting.get_nowait()
                if not begin():
                    waiting.put(episode)
                    return
                began = time.monotonic()
                try:
                    play(episode, model, place, options)
                    ended.put((episode, time.monotonic() - began))
                finally:
                    leave()
        except (Empty, Stopped):
            return
        except Exception as error:  # noqa: BLE001 - it is raised again, in the thread that waits for it
            ended.put(error)

    def ring() -> None:
        interrupt.waker().add_done_callback(lambda _: ended.put(None))

    seen, left = Level.NONE, len(episodes)
    ring()
    for _ in range(min(concurrency, left)):
        threading.Thread(target=work, name="sandrl-episode", daemon=True).start()
    while left:
        if interrupt.level > seen:
            seen = interrupt.level
            on_request(left if finishes_all else playing)
            if seen is Level.CANCEL:
                return left
        if is_over() and not playing and ended.empty():
            return left
        end = ended.get()
        if end is None:
            ring()
        elif isinstance(end, Exception):
            raise end
        else:
            left -= 1
            on_end(*end)
    return 0
