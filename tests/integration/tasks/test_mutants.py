"""Mutants of the states that solutions left: a strong verifier notices each, and a weak one does not."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandrl.config.scoring import ValidateConfig
from sandrl.events import Event
from sandrl.events.results import ScoredCompletion
from sandrl.problems import Problem, load_problems
from sandrl.redteam.mutants import measure_mutants
from sandrl.rewards.measuring import Measuring, MeasuringRequest, Run, opened_measuring
from sandrl.runs.cards import Mutant
from sandrl.sandboxes import Interrupt
from sandrl.settings import load_settings
from sandrl.trials.answers import Nothing, Oracle
from tests.support.tasks import harbor
from tests.support.tasks.base import BASE, import_task_base, write_files

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
_CONFIG = 'schema_version = "1.4"\n'
_DOCKERFILE = f"FROM {BASE}\nCOPY old /home/app/\nWORKDIR /home/app\n"
_SOLUTION = (
    '#!/bin/bash\nprintf \'{"name": "report", "total": 41, "final": true}\\n\' > report.json\n'
    "printf '#!/bin/sh\\necho ready\\n' > run; chmod 755 run; ln -s run start; rm old\n"
)
_STRONG = (
    '#!/bin/bash\nexpected=\'{"name": "report", "total": 41, "final": true}\'\nn=0\n'
    '[ "$(cat report.json)" = "$expected" ] && [ "$(./start)" = ready ] && [ ! -e old ] && n=1\n'
    "echo $n > /logs/verifier/reward.txt\n"
)
_WEAK = "#!/bin/bash\n[ -e report.json ] && n=1 || n=0\necho $n > /logs/verifier/reward.txt\n"
_TOKEN = "QUALITY_TOKEN"
_INSTRUCTION = "Write report.json into /home/app, replace the file old by the program run, and link it as start.\n"


_SERVED = "setsid httpd -f -p 8080 -h /home/app > /dev/null 2>&1 &\nsetsid sleep 600 > /dev/null 2>&1 &\nsleep 0.3\n"


def _write(place: Path, name: str, test: str, *, more: str = "", solution: str = _SOLUTION) -> None:
    files = {"instruction.md": _INSTRUCTION + more, "task.toml": _CONFIG}
    files |= {"solution/solve.sh": solution, "tests/test.sh": test}
    files |= {"environment/Dockerfile": _DOCKERFILE, "environment/old": "old\n"}
    write_files(place / name, files)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import_task_base(os.environ)
    place = tmp_path_factory.mktemp("tasks")
    _write(place, "strong", _STRONG)
    _write(place, "weak", _WEAK)
    _write(place, "served", _WEAK, more="Serve it by httpd.", solution=f"#!/bin/bash\necho 1 > report.json\n{_SERVED}")
    files = {"task.toml": f'{_CONFIG}[solution.env]\nTOKEN = "${{{_TOKEN}}}"\n'}
    _write(place, "secret", _WEAK, solution='#!/bin/bash\necho "{\\"token\\": \\"$TOKEN\\"}" > report.json\n')
    write_files(place / "secret", files)
    for name in ("server", "separate-copy", "steps-mean", "healthcheck", "numeric-users"):
        harbor.TASKS_BY_NAME[name].write(place)
    return place


@contextmanager
def _measuring(place: Path, problems: Mapping[str, Problem], *, resume: Path | None = None) -> Iterator[Measuring]:
    def ignore(event: Event) -> None:
        pass

    request = MeasuringRequest(ValidateConfig(problems=str(place), pass_env=(_TOKEN,)), resume)
    with opened_measuring(
        request,
        problems,
        load_settings(),
        command="problems validate",
        source=str(place),
        emit=ignore,
        interrupt=Interrupt(),
    ) as measuring:
        yield measuring


def _measured(measuring: Measuring, most: int = 40) -> dict[str, tuple[Mutant, ...]]:
    tasks = {name: problem.task for name, problem in measuring.problems.items() if problem.task is not None}
    passed = measuring.context.options.trial.passed_variables
    runs = [Run(name, "oracle.1", Oracle(task, passed)) for name, task in tasks.items()]
    runs += [Run(name, "nop.1", Nothing()) for name in tasks]
    found = measuring.judge(runs, keeps_states=True)

    def of(label: str) -> dict[str, ScoredCompletion]:
        return {name: found[f"{name}#{label}"] for name in tasks}

    return measure_mutants(measuring, of("oracle.1"), of("nop.1"), most)


@pytest.fixture(scope="module", autouse=True)
def token() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(_TOKEN, "abc-secret-xyz")
        yield "abc-secret-xyz"


@pytest.fixture(scope="module")
def run(place: Path, token: str) -> tuple[Path, dict[str, tuple[Mutant, ...]]]:
    with _measuring(place, load_problems(str(place)).problems) as measuring:
        return measuring.run.session.writer.path, _measured(measuring)


@pytest.fixture(scope="module")
def mutants(run: tuple[Path, dict[str, tuple[Mutant, ...]]]) -> dict[str, dict[str, Mutant]]:
    return {name: {each.name: each for each in found} for name, found in run[1].items()}


def test_a_strong_verifier_notices_every_mutant(mutants: dict[str, dict[str, Mutant]]) -> None:
    found = mutants["strong"]
    assert {name for name, each in found.items() if not each.is_killed} == set()
    assert found.keys() >= {
        "a number in /home/app/report.json: total: 41 -> 42",
        "a value in /home/app/report.json: name: report -> sfqpsu",
        "a boolean in /home/app/report.json: final: true -> false",
        "/home/app/report.json cut in the middle",
        "/home/app/report.json emptied",
        "/home/app/report.json removed",
        "/home/app/run not executable: 755 -> 644",
        "the link /home/app/start broken: run",
        "/home/app/old, which the solution removed, put back",
    }


def test_a_weak_verifier_notices_that_a_file_is_missing_alone(mutants: dict[str, dict[str, Mutant]]) -> None:
    found = mutants["weak"]
    assert found.keys() == mutants["strong"].keys()
    assert {name for name, each in found.items() if each.is_killed} == {"/home/app/report.json removed"}
    assert {each.reward for each in found.values() if not each.is_killed} == {1.0}


def test_where_a_server_must_run_the_solution_acts_again(mutants: dict[str, dict[str, Mutant]]) -> None:
    found = mutants["server"]
    assert found.keys() == {
        "a value in /app/www/answer: served -> tfswfe",
        "/app/www/answer cut in the middle",
        "/app/www/answer emptied",
        "/app/www/answer removed",
        "httpd stopped",
    }
    assert all(each.is_killed for each in found.values())


def test_a_service_that_the_instruction_names_and_the_verifier_does_not_miss_survives(
    mutants: dict[str, dict[str, Mutant]],
) -> None:
    stopped = {name: each for name, each in mutants["served"].items() if "stopped" in name}
    assert stopped == {"httpd stopped": Mutant(name="httpd stopped", reward=1.0)}


def test_the_last_step_is_changed_and_earlier_ones_keep_their_rewards(mutants: dict[str, dict[str, Mutant]]) -> None:
    found = mutants["steps-mean"]
    assert {each.path for each in found.values()} == {"/app/answer"}
    assert {each.reward for each in found.values()} == {0.5}


def test_files_that_a_verifier_does_not_get_or_the_preparation_made_are_not_changed(
    mutants: dict[str, dict[str, Mutant]],
) -> None:
    assert {each.path for each in mutants["separate-copy"].values()} == {"/app/kept/state"}
    assert {each.path for each in mutants["healthcheck"].values()} == {"/app/copy"}
    for name in ("separate-copy", "healthcheck"):
        assert all(each.is_killed for each in mutants[name].values())


def test_no_name_has_the_value_of_a_variable_that_was_passed(mutants: dict[str, dict[str, Mutant]]) -> None:
    assert mutants["secret"].keys() >= {"value: /home/app/report.json", "truncated: /home/app/report.json"}
    assert not any("secret" in name or "tfdsfu" in name for name in mutants["secret"])


def test_a_mode_counts_where_the_verifier_is_no_root(mutants: dict[str, dict[str, Mutant]]) -> None:
    assert mutants["numeric-users"]["/app/answer not readable: 644 -> 200"].is_killed


def test_a_resumed_run_has_the_same_mutants_and_judges_none_again(
    place: Path, run: tuple[Path, dict[str, tuple[Mutant, ...]]]
) -> None:
    path, before = run
    rows = (path / "trajectories.jsonl").read_bytes()
    states = {each.name for each in (path / "states").iterdir()}
    with _measuring(place, load_problems(str(place)).problems, resume=path) as measuring:
        assert _measured(measuring) == before
    assert (path / "trajectories.jsonl").read_bytes() == rows
    assert {each.name for each in (path / "states").iterdir()} == states


def test_nothing_is_judged_without_a_number_of_mutants_or_a_solution_that_earns(place: Path) -> None:
    problems = {"weak": load_problems(str(place)).problems["weak"]}
    with _measuring(place, problems) as measuring:
        assert measure_mutants(measuring, {}, {}, 12) == {}
        found = measuring.judge([Run("weak", "nop.1", Nothing())], keeps_states=True)["weak#nop.1"]
        assert measure_mutants(measuring, {"weak": found}, {}, 12) == {}
        assert measuring.results.keys() == {"weak#nop.1"}
