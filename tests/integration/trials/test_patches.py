"""Patches in machines, with the programs that their images have."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sandrl.errors import InputError
from sandrl.problems.tasks.task import TaskStep
from sandrl.trials.answers import Patch
from sandrl.trials.machine import Machine
from sandrl.trials.trial import AnswerError

RIGHT = "--- a/tmp/file\n+++ b/tmp/file\n@@ -1 +1 @@\n-old\n+new\n"
WRONG = RIGHT.replace("-old", "-other")
WITHOUT_PATCH = '#!/bin/sh\necho "$1: applet not found" >&2\nexit 127\n'
STEP = TaskStep("do it")


def test_a_patch_is_applied_by_busybox_where_there_is_nothing_else(machines: Callable[..., Machine]) -> None:
    machine = machines("busybox")
    machine.run("echo old >/tmp/file", timeout_seconds=10)
    with pytest.raises(AnswerError, match="does not apply"):
        Patch(WRONG).act(machine, STEP, 0)
    Patch(RIGHT).act(machine, STEP, 0)
    assert machine.read("/tmp/file", 100) == b"new\n"


def test_an_image_without_a_program_for_patches_is_no_fault_of_a_patch(machines: Callable[..., Machine]) -> None:
    machine = machines("debian")
    # A busybox that was built without this program comes first.
    place = "mkdir -p /usr/local/bin && cat >/usr/local/bin/busybox && chmod +x /usr/local/bin/busybox"
    assert machine.run(place, timeout_seconds=10, stdin=WITHOUT_PATCH.encode()).exit_code == 0
    with pytest.raises(InputError, match="neither git nor patch"):
        Patch(RIGHT).act(machine, STEP, 0)
