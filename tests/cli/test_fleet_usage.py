"""`--runtime ray[:ADDRESS]` where no cluster is: what is said."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run

KNOWN = "use one of auto, local, remote, daemonless, ray, docker, podman, kubernetes or ray:ADDRESS"
NOWHERE = "127.0.0.2:1"
WAYS = ("`ray start --head`", "ray:HOST:6379", "RAY_ADDRESS")


@pytest.mark.parametrize("named", ["cluster", "ray:", "local:x"])
@pytest.mark.parametrize("command", ["reward", "sandboxes ls", "doctor"])
def test_a_wrong_name_of_a_runtime_is_told_with_those_that_there_are(sandrl: Run, command: str, named: str) -> None:
    done = sandrl(*command.split(), f"--runtime={named}")
    assert (done.returncode, done.stdout) == (2, "")
    first, *more = done.stderr.splitlines()
    assert first.startswith(f"sandrl: error: --runtime is {named!r}; {KNOWN}")
    assert len(more) <= 1
    assert all(line.startswith("  hint: ") for line in more)


def test_without_an_address_the_ways_to_a_cluster_are_told(sandrl: Run) -> None:
    pytest.importorskip("ray")
    done = sandrl("reward", "--runtime", "ray")
    assert (done.returncode, done.stdout) == (2, "")
    error, hint = done.stderr.splitlines()
    assert error == "sandrl: error: --runtime ray: the address of the Ray cluster is not set"
    assert hint.startswith("  hint: ")
    assert [way for way in WAYS if way not in hint] == []


@pytest.mark.parametrize("is_named", [True, False])
def test_an_address_at_which_nothing_answers_is_told(sandrl: Run, is_named: bool) -> None:
    pytest.importorskip("ray")
    if is_named:
        # What is named counts more than what is set.
        done = sandrl("reward", "--runtime", f"ray:{NOWHERE}", RAY_ADDRESS="127.0.0.2:2")
    else:
        done = sandrl("reward", "--runtime", "ray", RAY_ADDRESS=NOWHERE)
    assert (done.returncode, done.stdout) == (3, "")
    error, hint = done.stderr.splitlines()
    assert error.startswith(f"sandrl: error: --runtime ray: no Ray cluster answers at {NOWHERE}: ")
    assert [way for way in WAYS if way not in hint] == []
