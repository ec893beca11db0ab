"""How sandboxes come, are found and described, and end."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from sandrl.errors import InfrastructureError, UnknownSandboxError, UsageError
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.conformance.check import DoesNotApply, check, expect, expect_error, expect_soon, expect_that
from sandrl.sandboxes.conformance.trial import LIFETIME_SECONDS, PATIENCE_SECONDS, SLEEP, Trial, answer, stop_all
from sandrl.sandboxes.connection import connect

_NO_SANDBOX = "00000000-0000-4000-8000-000000000000"


@check
def ping(trial: Trial) -> None:
    """The runtime answers a cheap call."""
    expect("the answer", answer(trial.client.ping()), None)


@check
def listing(trial: Trial) -> None:
    """Sandboxes are found by all of several tags, and no others are."""
    one, two = trial.client.create(["one"]), trial.client.create(["two"])
    for each in (one, two):
        answer(each.start())
    expect("with the tag of both", trial.ids(), {one.id, two.id})
    expect("with both tags of the second", trial.ids("two"), {two.id})
    expect("with a tag that none has", trial.ids("three"), set())


@check
def other_clients(trial: Trial) -> None:
    """Another client of the same process also finds a sandbox."""
    other = trial.connection.open()
    try:
        expect("what it lists", {trial.id}, {each.id for each in answer(other.list([trial.tag]))})
    finally:
        other.close(PATIENCE_SECONDS)


@check
def description(trial: Trial) -> None:
    """A sandbox is described as it is: id, status, image, tags, lifetime and time of creation."""
    begun = datetime.now(UTC)
    sandbox = trial.client.create(["seen"])
    expect("id before its start", sandbox.id, None)
    answer(sandbox.start())
    info = answer(trial.client.get(sandbox.id or "")).info
    expect("id", info.id, sandbox.id)
    expect(
        "status, whether it has ended, exit code",
        (info.status, info.has_ended, info.exit_code),
        ("running", False, None),
    )
    expect("image", info.image, trial.connection.image)
    expect_that({*trial.tags, "seen"} <= {*info.tags}, "tags", ", ".join((*trial.tags, "seen")), info.tags)
    expect("lifetime in seconds", info.max_lifetime_seconds, LIFETIME_SECONDS)
    created = info.created_at
    expect_that(
        created is not None and abs(created - begun) < timedelta(seconds=60), "created", f"about {begun}", created
    )


@check
def stopping(trial: Trial) -> None:
    """A sandbox that was stopped is not listed, is still described as ended, and can be stopped again."""
    sandbox_id = trial.id
    answer(trial.sandbox.stop())
    expect("what is listed", trial.ids(), set())
    expect("whether it has ended", answer(trial.client.get(sandbox_id)).info.has_ended, True)
    answer(trial.sandbox.stop())
    expect("what is listed with those that have ended", trial.ids(ended=True), {sandbox_id})


@check
def stopping_kills(trial: Trial) -> None:
    """Stopping a sandbox ends the command that runs in it with an error."""
    running = trial.sandbox.run(Command(SLEEP, timeout_seconds=60.0))
    trial.expect_sleepers(1)
    answer(trial.sandbox.stop())
    expect_error("the command", InfrastructureError, lambda: answer(running))


@check
def stopping_early(trial: Trial) -> None:
    """A sandbox that is stopped while it is created has ended, or is found by its tags and can be stopped."""
    sandboxes = [trial.client.create(()) for _ in range(4)]
    for each in sandboxes:
        each.run(Command(SLEEP))
    for stop in [each.stop() for each in sandboxes]:
        answer(stop)
    # A creation that was in flight may show up later; whatever shows up can be stopped.
    for pause in (0.0, 1.0):
        time.sleep(pause)
        expect_soon("sandboxes that are left", lambda: stop_all(trial.client, [trial.tag]), 0, seconds=PATIENCE_SECONDS)


@check
def stopping_unused(trial: Trial) -> None:
    """A sandbox that was never created is stopped by doing nothing."""
    answer(trial.sandbox.stop())
    expect("what is listed", trial.ids(), set())


@check
def lifetime(trial: Trial) -> None:
    """Its lifetime ends a sandbox, also if a command runs in it."""
    short = trial.open(lifetime_seconds=2)
    try:
        running = short.create(()).run(Command(SLEEP, timeout_seconds=PATIENCE_SECONDS))
        expect_error("the command", InfrastructureError, lambda: answer(running))
        expect_soon("what is listed", trial.ids, set())
    finally:
        short.close(PATIENCE_SECONDS)


@check
def unknown_id(trial: Trial) -> None:
    """An id that no sandbox has is said to be unknown."""
    expect_error("the search", UnknownSandboxError, lambda: answer(trial.client.get(_NO_SANDBOX)))


@check
def running_late(trial: Trial) -> None:
    """A command for a sandbox that has ended fails with an error of the sandbox, and has no result."""
    answer(trial.started().stop())
    expect_error("the command", InfrastructureError, lambda: answer(trial.sandbox.run(Command(("true",)))))


@check
def unknown_image(trial: Trial) -> None:
    """An image that is not available is refused by its name."""
    if not trial.connection.is_local:
        raise DoesNotApply("the images are those of a registry, not of this machine")

    def use() -> None:
        client = connect(trial.settings, runtime=trial.runtime, image="host:2.7").open(tags=trial.tags)
        try:
            answer(client.create(()).run(Command(("true",))))
        finally:
            client.close(PATIENCE_SECONDS)

    error = expect_error("its use", UsageError, use)
    expect_that("host:2.7" in str(error), "the message", "the name host:2.7", str(error))


@check
def logs(trial: Trial) -> None:
    """The output of the main program of a running sandbox can be read, whole and its end, and ends."""
    for tail in (None, 1):
        found = [*trial.found().logs(follow=False, tail_lines=tail)]
        expect_that(all(isinstance(each, str) for each in found), "the output", "texts", found)


@check
def signs_of_life(trial: Trial) -> None:
    """A runtime that lives is never taken for one that has ended, also after a sandbox has."""
    has_ended = trial.connection.has_ended
    if has_ended is None:
        expect("`renew` of a runtime whose end only a call shows", trial.connection.renew, None)
        raise DoesNotApply("only a call to the runtime shows whether it has ended")
    expect("whether it has ended", has_ended(), False)
    answer(trial.started().stop())
    expect("whether it has ended after a sandbox has", has_ended(), False)


@check
def abandoning(trial: Trial) -> None:
    """A client that has abandoned its sandboxes can do so again, and be closed."""
    other = trial.open()
    running = other.create(()).run(Command(SLEEP, timeout_seconds=60.0))
    expect_soon("sandboxes that are listed", lambda: len(trial.ids()), 1, seconds=20.0)
    other.abandon()
    other.abandon()
    other.close(PATIENCE_SECONDS)
    running.cancel()


@check
def closing(trial: Trial) -> None:
    """A client is closed while a sandbox of it runs; another client finds that it has ended, or can stop it."""
    other = trial.open()
    answer(other.create(()).start())
    other.close(PATIENCE_SECONDS)
    stop_all(trial.client, [trial.tag])
    expect("what is listed", trial.ids(), set())
