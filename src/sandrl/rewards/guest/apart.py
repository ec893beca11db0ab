"""Runs the checks against a completion in another process, and produces the verdict.

Checks run in a namespace where proxies (`mirrors.py`) replace the completion's functions, classes and objects. How far
an object of the completion is trusted is decided in `client.py`.
"""

from __future__ import annotations

from sandrl.rewards.guest.channel import Channel
from sandrl.rewards.guest.checks import Checks
from sandrl.rewards.guest.client import CompletionGone, CompletionProcess, Unsplittable
from sandrl.rewards.guest.clock import Clock, too_long
from sandrl.rewards.guest.declarations import Request
from sandrl.rewards.guest.descriptors import DeadlineReached
from sandrl.rewards.guest.supervisor import Child, Ends, Judged, end_child, filled, judge_child, letter_of, uncounted

FLUSH_SECONDS = 0.5


def watch_for_end(completion: CompletionProcess) -> None:
    """From here on the end of the completion's process raises `CompletionGone`.

    Processes it forked may hold the channel open after it, so the end of the channel is not enough of a sign.
    """

    def on_end() -> None:
        if not completion.gone:
            completion.gone = True
            raise CompletionGone

    Ends.on_end = on_end
    Ends.look()


def judge_apart(child: Child, channel: Channel, request: Request, hidden: Request) -> Judged:
    """Judges a completion that runs in a child; `request` is known there, too, and `hidden` here alone."""
    seconds = request["timeout_seconds"]
    completion = CompletionProcess(channel, child.pid)
    clock = Clock(seconds, child.pid)
    checks = Checks(completion, hidden, clock, request)
    status, detail, gone, is_whole = "passed", "", False, False
    try:
        clock.start()
        try:
            try:
                watch_for_end(completion)
                completion.wait_until_ready()
                status, detail = checks.run()
                is_whole = True
            finally:
                # Its end is known by now, or no news any more; what follows is not to be torn open by it.
                Ends.on_end = None
        except CompletionGone:
            completion.gone, gone, is_whole = True, True, False
        except Unsplittable as error:
            status, detail = "not_isolated", str(error)
        clock.stop()
    except DeadlineReached:
        completion.gone = True
        clock.stop()
        clock.left = 0.0
        status, detail = "timeout", too_long(clock.limits[0].seconds)
    # The end of the channel is the end of the completion's work.
    channel.close()
    # It has a moment to flush what it printed.
    ended = end_child(child, min(clock.left, FLUSH_SECONDS), clock)
    if gone:
        status, detail = judge_child(ended, seconds)
        if status in ("passed", "timeout", "invalid_problem", "not_isolated"):
            status, detail = "crashed", "it stopped answering before its checks were done"
    elif ended.excess and status in ("passed", "failed", "crashed"):
        status, detail, is_whole = "resource_limit", ended.excess, False
    reached = checks.reached
    if not is_whole:
        reached = uncounted(reached) + [(letter_of(status), detail)] * checks.is_in_check
    returned = checks.calls.returned() if checks.calls is not None else None
    outcome = filled(reached, len(checks.tests), checks.rest)
    judged = Judged(status, detail, outcome, ended.times, ended.stdout, ended.stderr, returned)
    judged.rests = checks.rests and is_whole
    judged.excerpts = {number: (*sides, (0, 0)) for number, sides in checks.sides.items()}
    return judged
