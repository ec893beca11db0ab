"""The blobs of an image, several at once.

After a failure or Ctrl-C, threads that wait for a source are left alone: each ends with its next piece, and keeps no
process alive. The next command continues with the part that it has received.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from contextlib import ExitStack

from sandrl.deadlines import in_background
from sandrl.runtime.images.contents import Contents, Tell
from sandrl.runtime.images.source import Descriptor, Source


class _LeftAlone(Exception):
    pass


def obtain_blobs(
    contents: Contents,
    source: Source,
    blobs: Sequence[Descriptor],
    held: ExitStack,
    teller: Callable[[int, Descriptor], Tell],
    *,
    at_once: int,
) -> None:
    """Copies blobs to a store unless they are there; they stay there until `held` is closed.

    `teller` makes what is told of a blob by its place, from 1; several threads call it if `at_once` is more than 1.

    Raises:
        SandrlError: If the source cannot be read, or gives another content.
    """
    left = deque(enumerate(blobs, 1))
    is_over, taking = threading.Event(), threading.Lock()

    def unless_over(tell: Tell) -> Tell:
        def told(done: int) -> None:
            if is_over.is_set():
                raise _LeftAlone
            tell(done)

        return told

    def work() -> None:
        while not is_over.is_set():
            try:
                part, each = left.popleft()
            except IndexError:
                return
            with ExitStack() as own:
                contents.obtain_blob(source, each, own, unless_over(teller(part, each)))
                with taking:
                    if not is_over.is_set():
                        held.push(own.pop_all())

    if at_once == 1:
        work()
        return
    workers = [in_background(work) for _ in range(min(at_once, len(blobs)))]
    try:
        for worker in as_completed(workers):
            worker.result()
    finally:
        with taking:
            is_over.set()
