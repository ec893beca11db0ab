"""Whose failure it is if a verifier leaves no valid reward, from both sides of the border, in real sandboxes."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import pytest

from sandrl.config.words import VerifierPlace
from sandrl.events.results import Status, Trust
from sandrl.judge.verdict import Verdict
from sandrl.problems.tasks.task import (
    Artifact,
    Environment,
    Phase,
    Reach,
    RewardStrategy,
    Task,
    TaskStep,
    Verifier,
    VerifierMode,
)
from sandrl.rollouts.sandbox import JobSandboxes
from sandrl.sandboxes import Shape, State
from sandrl.settings import NetworkMode
from sandrl.trials.answers import Nothing, Patch, Script
from sandrl.trials.entries import Entry, archived
from sandrl.trials.machine import Machine
from sandrl.trials.state import find_state
from sandrl.trials.trial import Agent, FinalState, Site, TrialOptions, run_trial

_REWARD = "/logs/verifier/reward.txt"
_HONEST = f"[ -e /app/right ] && echo 1 >{_REWARD} || echo 0 >{_REWARD}\n"
_ONLY_HERE = "[ -e /app/broken ] && {harm}\n" + _HONEST
_CALM = TrialOptions()
_APART = TrialOptions(mode=VerifierPlace.SEPARATE)
_ARTIFACTS = TrialOptions(mode=VerifierPlace.ARTIFACTS)
_NO_NETWORK = Reach(NetworkMode.NONE)

Run = Callable[..., Verdict]


@dataclass
class Outage:
    """Which of the machines that a trial starts, by their order from 0, have the variable OUTAGE."""

    machines: Sequence[int] = ()
    made: int = 0


@pytest.fixture
def outage() -> Outage:
    return Outage()


@pytest.fixture
def run(place: JobSandboxes, images: dict[str, str], tmp_path: Path, outage: Outage) -> Run:
    """Runs a trial of a task with one verifier, or with one for each step."""

    def make(shape: Shape, state: State | None, tags: Sequence[str], task_id: str) -> Machine:
        if outage.made in outage.machines:
            shape = replace(shape, variables=(*shape.variables, ("OUTAGE", "yes")))
        outage.made += 1
        return Machine(place, replace(shape, state=state), tags, task_id=task_id, states=tmp_path / "states")

    def trial(
        agent: Agent,
        *verifiers: str | Verifier,
        options: TrialOptions = _CALM,
        strategy: RewardStrategy = RewardStrategy.MEAN,
        artifacts: tuple[Artifact, ...] = (),
        memory_bytes: int | None = None,
        network: Reach = _NO_NETWORK,
        directory: str = "",
        variables: tuple[tuple[str, str], ...] = (),
        prepare: str = "",
    ) -> Verdict:
        made = [
            each if isinstance(each, Verifier) else Verifier(Phase(timeout_seconds=20.0), files=_tests(each))
            for each in verifiers
        ]
        steps = tuple(
            TaskStep("do it", f"step-{number}" if len(made) > 1 else "", verifier=each, artifacts=artifacts)
            for number, each in enumerate(made)
        )
        environment = Environment(
            images["debian"],
            memory_bytes=memory_bytes,
            network=network,
            directory=directory or None,
            variables=variables,
            prepare=f"mkdir -p /app; chmod 777 /app; {prepare}",
        )
        task = Task("t", "test", "digest", environment, steps, strategy=strategy)
        return run_trial(task, agent, Site(make, place.find_image), options)

    return trial


def _tests(script: str) -> tuple[tuple[str, bytes], ...]:
    return (("test.sh", f"#!/bin/sh\n{script}".encode()),)


def _outcome(verdict: Verdict) -> tuple[Status, float | None]:
    return verdict.status, verdict.score


@pytest.mark.parametrize("options", [_CALM, _APART])
def test_a_verifier_that_works_decides_the_reward(run: Run, options: TrialOptions) -> None:
    assert _outcome(run(Script("touch /app/right"), _HONEST, options=options)) == (Status.PASSED, 1.0)
    nothing = run(Nothing(), _HONEST, options=options)
    assert _outcome(nothing) == (Status.FAILED, 0.0)
    assert nothing.trust is (Trust.SHARED if options is _CALM else Trust.SEPARATE)
    assert nothing.states


_HARMS = {
    "crash": "exit 3",
    "no number": f"{{ echo done >{_REWARD}; exit 0; }}",
    "not finite": f"{{ echo nan >{_REWARD}; exit 0; }}",
    "its processes are killed": "{ kill -9 -1; kill -9 $$; }",
    "out of memory": "exec tail /dev/zero",
}


@pytest.mark.parametrize("harm", _HARMS.values(), ids=_HARMS)
@pytest.mark.parametrize("options", [_CALM, _APART], ids=["shared", "separate"])
def test_who_breaks_the_verifier_earns_nothing_and_stays_in_the_group(
    run: Run, harm: str, options: TrialOptions
) -> None:
    verdict = run(
        Script("touch /app/right /app/broken"), _ONLY_HERE.format(harm=harm), options=options, memory_bytes=128 << 20
    )
    assert _outcome(verdict) == (Status.FAILED, 0.0)
    assert "which does not happen on the untouched image" in verdict.detail


@pytest.mark.parametrize("harm", _HARMS.values(), ids=_HARMS)
def test_a_verifier_that_is_broken_everywhere_costs_nobody_a_reward(run: Run, harm: str) -> None:
    verdict = run(Script("touch /app/right"), f"{harm}\n", memory_bytes=128 << 20)
    assert _outcome(verdict) == (Status.INFRASTRUCTURE, None)
    assert "on the untouched image as well" in verdict.detail
    assert not verdict.status.scorable


_TOOLLESS = {
    "uvx": "uvx -w pytest==8.4.1 pytest --ctrf /logs/verifier/ctrf.json /tests/test_outputs.py",
    "a path": "$HOME/.local/bin/uv run pytest /tests",
    "the module": "echo /usr/bin/python3: No module named pytest >&2; false",
    "the index": "echo 'error: Failed to fetch: `https://pypi.org/simple/pytest/`' >&2; false",
    "its dependencies": "echo '  × No solution found when resolving tool dependencies:' >&2; false",
}
_LAST = f"\nif [ $? -eq 0 ]; then echo 1 >{_REWARD}; else echo 0 >{_REWARD}; fi\n"


@pytest.mark.parametrize("command", _TOOLLESS.values(), ids=_TOOLLESS)
def test_a_zero_of_a_verifier_without_its_own_programs_is_no_reward(run: Run, command: str) -> None:
    verdict = run(Script("touch /app/right"), command + _LAST)
    assert _outcome(verdict) == (Status.INFRASTRUCTURE, None)
    assert "could not get its own programs" in verdict.detail
    # Only with the agent's state it is the agent's failure.
    broken = run(Script("touch /app/broken"), f"if [ -e /app/broken ]; then {command}; else false; fi{_LAST}")
    assert (*_outcome(broken), broken.verifier_failures) == (Status.FAILED, 0.0, 0)
    assert "which does not happen on the untouched image" in broken.detail


_TESTED = {
    "tests began": "echo '=== test session starts ==='; echo 'E   No module named pytest'; false",
    "a program of the task": "/app/solve",
    "a reward above zero": f"uvx pytest; echo 0.5 >{_REWARD}; exit",
}


@pytest.mark.parametrize("command", _TESTED.values(), ids=_TESTED)
def test_a_program_that_is_missing_in_a_test_is_the_agents(run: Run, command: str) -> None:
    assert run(Nothing(), command + _LAST).status is Status.FAILED


def test_line_ends_that_no_shell_reads_are_named(run: Run) -> None:
    verdict = run(Nothing(), Verifier(files=(("test.sh", b"#!/bin/sh\r\necho 1 >/logs/verifier/reward.txt\r\n"),)))
    assert _outcome(verdict) == (Status.INFRASTRUCTURE, None)
    assert "test.sh end in CR LF" in verdict.detail


@pytest.mark.slow
def test_a_time_limit_is_a_failure_of_the_verifier(run: Run) -> None:
    def verifier(script: str) -> Verifier:
        return Verifier(Phase(timeout_seconds=1.0), files=_tests(script))

    slow = run(Script("touch /app/broken"), verifier(_ONLY_HERE.format(harm="sleep 60")))
    assert _outcome(slow) == (Status.FAILED, 0.0)
    assert "time limit of 1 s" in slow.detail
    assert _outcome(run(Nothing(), verifier("sleep 60"))) == (Status.INFRASTRUCTURE, None)


_DEPENDENT = f'[ "$OUTAGE" ] && exit 1\n{_HONEST}'


@pytest.mark.parametrize(
    ("machines", "expected"),
    [
        ((0,), (Status.PASSED, 1.0)),
        ((0, 1), (Status.PASSED, 1.0)),
        ((0, 1, 2), (Status.INFRASTRUCTURE, None)),
        ((0, 1, 3), (Status.FAILED, 0.0)),
    ],
    ids=["ended at once", "ended on the untouched image", "goes on", "only with the agent's state"],
)
def test_an_outage_is_not_the_agents(
    run: Run, outage: Outage, machines: tuple[int, ...], expected: tuple[Status, float | None]
) -> None:
    # The agent's machine, one from its state, one from the untouched image, one more from its state.
    outage.machines = machines
    assert _outcome(run(Script("touch /app/right"), _DEPENDENT)) == expected


def test_what_was_there_before_the_verifier_is_no_reward(run: Run) -> None:
    fake = Script(f"echo 1 >{_REWARD}; echo 1 >/logs/verifier/reward.json; mkdir -p /tests; echo >/tests/old")
    assert _outcome(run(fake, "true")) == (Status.INFRASTRUCTURE, None)
    assert _outcome(run(fake, f"[ ! -e /tests/old ] && echo 1 >{_REWARD}")) == (Status.PASSED, 1.0)


@pytest.mark.parametrize("path", ["/logs/verifier", "/logs", "/tests"])
def test_links_in_place_of_directories_are_not_followed(run: Run, path: str) -> None:
    script = f"mkdir -p /app/fake/verifier; rm -rf {path}; ln -s /app/fake {path}; echo 1 >/app/fake/reward.txt"
    assert _outcome(run(Script(script), _HONEST)) == (Status.FAILED, 0.0)


def test_a_process_that_is_left_running_writes_no_reward_of_a_separate_verifier(run: Run) -> None:
    cheat = Script(f"(while :; do echo 1 >{_REWARD}; done) >/dev/null 2>&1 &")
    verdict = run(cheat, f"sleep 1; {_HONEST}", options=_APART)
    assert (verdict.score, verdict.trust) == (0.0, Trust.SEPARATE)


def test_a_process_of_another_user_writes_no_reward_of_a_shared_verifier(run: Run) -> None:
    class Cheat:
        is_repeatable = True
        takes_turns = True

        def act(self, machine: Machine, step: TaskStep, number: int) -> None:
            loop = f"(while :; do echo 1 >{_REWARD}; sleep 0.1; done) >/dev/null 2>&1 &"
            machine.run(loop, user="1000", timeout_seconds=10)

    verdict = run(Cheat(), f"sleep 1; {_HONEST}")
    assert (verdict.score, verdict.trust) == (0.0, Trust.SHARED)


_NAMES = "sh bash busybox cat chmod chown chroot head id ls mkdir mktemp mv rm setpriv sleep su tail tar wc"
# Each leads to the program of its name; as root, it has left a sign before, and a better reward.
_SHIMS = f"""for each in {_NAMES}; do
    echo "#!/bin/sh
[ \\$(/bin/id -u) = 0 ] && /bin/touch /app/root && [ -e {_REWARD} ] && echo 1 >{_REWARD}
exec /bin/$each \\"\\$@\\"" >PLACE/$each
    chmod 755 PLACE/$each
done"""
_SOUND = Verifier(
    Phase(user="root", timeout_seconds=20.0),
    files=_tests(f"[ -e /app/root ] && reward=1 || reward=0\necho $reward >{_REWARD}\n"),
    ends_processes=True,
)


@pytest.mark.parametrize("options", [_CALM, _APART], ids=["shared", "separate"])
@pytest.mark.parametrize("directory", ["/app/bin", "/usr/local/bin"])
def test_what_an_agent_puts_into_a_directory_of_path_does_not_run_as_root(
    run: Run, options: TrialOptions, directory: str
) -> None:
    class Cheat(Nothing):
        def act(self, machine: Machine, step: TaskStep, number: int) -> None:
            script = _SHIMS.replace("PLACE", directory)
            outcome = machine.run(script, user="app", timeout_seconds=10)
            assert outcome.exit_code == 0, outcome.stderr
            seen = machine.run("tail -c 1 /etc/passwd; command -v tail", user="app", timeout_seconds=10)
            assert seen.stdout.decode().split() == [f"{directory}/tail"], "its own commands have the PATH of the image"

    verdict = run(
        Cheat(),
        _SOUND,
        options=options,
        variables=(("PATH", f"{directory}:/bin"),),
        prepare=f"mkdir -p {directory}; chown 1000 {directory}",
    )
    assert _outcome(verdict) == (Status.FAILED, 0.0)


def test_processes_end_before_a_shared_verifier_that_allows_it(run: Run) -> None:
    cheat = Script(f"(while :; do echo 1 >{_REWARD}; done) >/dev/null 2>&1 &")
    verifier = Verifier(files=_tests(f"sleep 1; {_HONEST}"), ends_processes=True)
    assert run(cheat, verifier).score == 0.0


_EXPECTED = ("expected", b"42\n")


def test_an_artifact_is_no_link_to_the_tests(run: Run) -> None:
    verifier = Verifier(
        mode=VerifierMode.SEPARATE,
        files=(
            *_tests(f'[ "$(cat /app/out/answer)" = "$(cat /tests/expected)" ] && x=1 || x=0; echo $x >{_REWARD}'),
            _EXPECTED,
        ),
    )
    for target in ("/tests/expected", "../../tests/expected"):
        cheat = Script(f"mkdir -p /app/out; ln -s {target} /app/out/answer")
        assert run(cheat, verifier, artifacts=(Artifact("/app/out"),)).score == 0.0
    honest = Script("mkdir -p /app/out; echo 42 >/app/out/answer")
    verdict = run(honest, verifier, artifacts=(Artifact("/app/out"),))
    assert (verdict.score, verdict.trust) == (1.0, Trust.SEPARATE)


# Its own grep, and a shell that names the directory of programs as where it works.
_SHIM = """cat /bin/sh >/bin/real
printf '#!/bin/real\\nexit 0\\n' >/bin/false-grep
printf '#!/bin/real\\n[ "$2" != pwd ] || { echo /bin; exit; }\\nexec /bin/real "$@"\\n' >/bin/false-sh
chmod 755 /bin/real /bin/false-grep /bin/false-sh
mv -f /bin/false-grep /bin/grep
mv -f /bin/false-sh /bin/sh
"""
_GREP = f"grep -q right answer && grep -q done /srv/log && echo 1 >{_REWARD} || echo 0 >{_REWARD}\n"


def test_a_verifier_with_artifacts_has_no_program_of_the_agent(run: Run, tmp_path: Path) -> None:
    solved = "echo right >answer; echo done >/srv/log"
    for options, cheated in ((_CALM, 1.0), (_APART, 1.0), (_ARTIFACTS, 0.0)):
        honest = run(Script(solved), _GREP, options=options, directory="/app")
        assert (honest.score, honest.trust) == (1.0, Trust.SHARED if options is _CALM else Trust.SEPARATE)
        cheat = run(Script(_SHIM), _GREP, options=options, directory="/app")
        assert cheat.score == cheated
        [state] = (str(tmp_path / f"states/{each}.tar.gz") for each in cheat.states)
        again = run(FinalState((state,)), _GREP, options=options, directory="/app")
        assert again.score == cheated


def test_what_a_verifier_does_not_mention_is_not_taken_along(run: Run) -> None:
    verifier = f"work=/srv; [ -e $work/right ] && echo 1 >{_REWARD} || echo 0 >{_REWARD}\n"
    agent = Script("touch /srv/right")
    assert run(agent, verifier, options=_APART, directory="/app").score == 1.0
    assert run(agent, verifier, options=_ARTIFACTS, directory="/app").score == 0.0


def test_a_step_that_is_broken_counts_as_zero(run: Run) -> None:
    verdict = run(Script("touch /app/right /app/broken"), _HONEST, _ONLY_HERE.format(harm="exit 1"))
    assert _outcome(verdict) == (Status.FAILED, 0.5)


def test_the_tests_of_a_step_are_gone_in_the_next(run: Run) -> None:
    class Looker:
        is_repeatable = True
        takes_turns = True

        def act(self, machine: Machine, step: TaskStep, number: int) -> None:
            found = machine.run("ls -d /tests /solution /logs/verifier/*", timeout_seconds=10)
            assert not found.stdout, found.stdout

    assert run(Looker(), _HONEST, _HONEST).score == 0.0


def test_a_kept_state_is_verified_again(run: Run, tmp_path: Path) -> None:
    before = run(Script("touch /app/right"), "false\n")
    assert before.score is None
    (file,) = (tmp_path / "states").glob("*.tar.gz")
    repaired = run(FinalState((str(file),)), _HONEST)
    assert (repaired.score, repaired.trust) == (1.0, Trust.SEPARATE)
    assert repaired.states == before.states


def test_a_patch_that_does_not_fit_fails_with_its_reason(run: Run) -> None:
    patch = Patch("--- a/none\n+++ b/none\n@@ -1 +1 @@\n-old\n+new\n")
    verdict = run(patch, _HONEST)
    assert _outcome(verdict) == (Status.FAILED, 0.0)
    assert "the patch does not apply" in verdict.detail


@dataclass
class Model:
    """An agent that cannot be repeated, whose one command is given for each step."""

    commands: Sequence[str]
    is_repeatable: bool = False
    takes_turns = True

    def act(self, machine: Machine, step: TaskStep, number: int) -> None:
        machine.run(self.commands[number], timeout_seconds=20)


_NO_TAR = "printf '#!/bin/sh\\nexit 1\\n' >$(command -v tar)"
# Deeper than a state can be.
_NO_STATE = "cd /app; n=$(printf %0200d 1); while :; do mkdir $n && cd $n || break; done"


def test_a_model_that_breaks_what_collects_its_artifacts_stays_in_its_group(run: Run) -> None:
    verifier = Verifier(mode=VerifierMode.SEPARATE, files=_tests(_HONEST))
    verdict = run(Model([f"touch /app/right; {_NO_TAR}"]), verifier, artifacts=(Artifact("/app"),))
    assert _outcome(verdict) == (Status.FAILED, 0.0)


@pytest.mark.parametrize("options", [_CALM, _APART], ids=["shared", "separate"])
def test_a_model_whose_state_cannot_be_kept_stays_in_its_group(run: Run, options: TrialOptions) -> None:
    verdict = run(Model([f"touch /app/right; {_NO_TAR}; {_NO_STATE}"]), _HONEST, options=options)
    assert _outcome(verdict) == (Status.FAILED, 0.0)
    assert not verdict.states


def test_who_leaves_no_state_is_not_verified_in_its_own_sandbox_where_another_was_asked_for(run: Run) -> None:
    verdict = run(Script(f"touch /app/right; {_NO_STATE}"), _HONEST, options=_APART)
    assert (verdict.score, verdict.trust) == (0.0, Trust.SEPARATE)
    assert "cannot be kept" in verdict.detail


def test_a_server_outlives_an_outage_of_its_verifier(run: Run) -> None:
    # What it downloads fails once; the server is no part of the state.
    fails_once = f"""[ -e /app/tried ] || {{ touch /app/tried; exit 1; }}
        kill -0 "$(cat /app/pid)" && echo 1 >{_REWARD} || echo 0 >{_REWARD}"""
    verdict = run(Script("sleep 600 >/dev/null 2>&1 & echo $! >/app/pid"), fails_once)
    assert (verdict.score, verdict.trust, verdict.verifier_failures) == (1.0, Trust.SHARED, 1)


def test_a_state_that_was_damaged_here_is_not_the_agents_failure(run: Run, tmp_path: Path) -> None:
    run(Script("touch /app/right"), _HONEST)
    (file,) = (tmp_path / "states").glob("*.tar.gz")
    content = file.read_bytes()
    for damaged in (content[: len(content) // 2], gzip.compress(b"x" * 1024), b""):
        file.write_bytes(damaged)
        assert _outcome(run(FinalState((str(file),)), _HONEST)) == (Status.INFRASTRUCTURE, None)


def test_a_state_of_an_agent_that_is_no_state_earns_nothing(run: Run, tmp_path: Path) -> None:
    layer = archived([Entry("app/" + "d" * 300, content=b"")])
    file = tmp_path / f"{sha256(layer).hexdigest()}.tar.gz"
    file.write_bytes(gzip.compress(layer))
    assert _outcome(run(FinalState((str(file),)), _HONEST)) == (Status.FAILED, 0.0)


@pytest.mark.parametrize("name", ["{0}.over-{0}", "{0}.over-" + "b" * 64, "../{0}", "notes"])
def test_a_name_of_a_state_leads_nowhere(tmp_path: Path, name: str) -> None:
    named = name.format("a" * 64)
    (tmp_path / "states").mkdir()
    (tmp_path / "states" / f"{named}.tar.gz").write_bytes(b"")
    assert find_state(tmp_path / "states", named.partition(".over")[0], "image") is None


def test_a_state_that_nobody_wants_is_told_with_its_size_and_removed(run: Run, tmp_path: Path) -> None:
    agent = Script("touch /app/right; head -c 100000 /dev/urandom >/app/data")
    verdict = run(agent, _HONEST, options=replace(_APART, keeps_states=False))
    assert (verdict.score, verdict.states, list((tmp_path / "states").iterdir())) == (1.0, (), [])
    assert verdict.state_bytes is not None
    assert 100_000 < verdict.state_bytes < 120_000
    wanted = run(Script("touch /app/right"), _HONEST)
    [file] = (tmp_path / "states").iterdir()
    assert (wanted.states, wanted.state_bytes) == ((file.name.removesuffix(".tar.gz"),), file.stat().st_size)
    again = run(FinalState((str(file),)), _HONEST, options=replace(_CALM, keeps_states=False))
    assert (again.score, file.exists()) == (1.0, True)


@pytest.fixture
def ports() -> Iterator[list[int]]:
    """Ports of this machine's loopback, which accept connections and say nothing."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64)).getsockname()[1] for _ in range(3)
        ]


@pytest.mark.parametrize("mode", [VerifierPlace.TASK, VerifierPlace.SEPARATE])
def test_the_hosts_that_each_phase_has_reached_are_told(run: Run, ports: list[int], mode: VerifierPlace) -> None:
    ended, open_, of_verifier = (f"127.0.0.1:{port}" for port in ports)
    options = TrialOptions(mode=mode, private_hosts=(ended, open_, of_verifier))
    connect = "busybox nc {} {} </dev/null >/dev/null".format
    agent = f"""busybox timeout 1 {connect("127.0.0.1", ports[0])}
        sleep 600 | {connect("127.0.0.1", ports[1]).replace("</dev/null", "")} 2>&1 & sleep 1
        {connect("127.0.0.1", 1)}
        touch /app/right"""
    verifier = f"busybox timeout 1 {connect('127.0.0.1', ports[2])}\n{_HONEST}"
    verdict = run(Script(agent), verifier, options=options, network=Reach(NetworkMode.ALLOWLIST))
    assert verdict.score == 1.0
    assert verdict.reached == {"agent": tuple(sorted((ended, open_))), "verifier": (of_verifier,)}


def test_without_a_network_no_host_is_reached(run: Run) -> None:
    verdict = run(Script("touch /app/right; busybox nc 127.0.0.1 80 </dev/null"), _HONEST)
    assert (verdict.score, verdict.reached) == (1.0, {"agent": (), "verifier": ()})
