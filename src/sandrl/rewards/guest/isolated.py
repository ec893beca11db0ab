"""Judges a completion from another process: forks the completion's process, and then loads the code that judges it.

The completion's process never contains a check, an expected value of a check, or the code of the judge's end of the
channel (`apart.py`).
"""

from __future__ import annotations

import posix

from sandrl.rewards.guest.apart import judge_apart
from sandrl.rewards.guest.channel import Channel
from sandrl.rewards.guest.declarations import Libc, Request, Say, load_rest
from sandrl.rewards.guest.server import run_completion
from sandrl.rewards.guest.supervisor import Judged, read_hidden, start_child


def judge_isolated(request: Request, call: Libc | None) -> Judged:
    """Judges a completion whose checks run here, in the supervisor, against a process that never sees them."""
    to_read, their_write = posix.pipe()
    their_read, to_write = posix.pipe()

    def body(request: Request, say: Say) -> None:
        run_completion(request, say, Channel(their_read, their_write))

    child = start_child(body, request, posix.open("/dev/null", posix.O_RDONLY), call, (their_read, their_write))
    posix.close(their_read)
    posix.close(their_write)
    load_rest()
    return judge_apart(child, Channel(to_read, to_write), request, read_hidden(request))
