"""Problems that name images, in one job: each completion is judged in the image of its problem."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sandrl.events import Event, Warned
from sandrl.events.results import Isolation, ScoredCompletion, Status
from sandrl.problems import Completion, Problem
from sandrl.rewards import ScoreOptions, score
from sandrl.rollouts.sandbox import EpisodeSandbox, JobSandboxes
from sandrl.runtime.images.removal import remove
from sandrl.runtime.images.store import ImageStore
from sandrl.sandboxes import Job, connect, new_job_id
from sandrl.scoring.cache import VerdictCache
from sandrl.settings import RuntimeKind, Settings, load_settings
from tests.support.image_trees import import_tree, make_busybox_tree, make_python_tree

TASKS = ("first", "second", "none")
UNCACHED = ScoreOptions(caching=False)
IN_IMAGE = "def where():\n    try:\n        return open('/name').read()\n    except OSError:\n        return 'none'\n"


def named(name: str, content: str = "", *, python: bool = True) -> str:
    """Imports an image whose file /name has its name, or this content."""

    def make(place: Path) -> None:
        (make_python_tree if python else make_busybox_tree)(place)
        (place / "name").write_text(content or name)

    return import_tree(f"tests/{name}:1", make)


def problem(expected: str, image: str | None) -> Problem:
    return Problem(expected, "Name the image.", tests=(f"assert where() == {expected!r}",), image=image)


def judged(
    settings: Settings,
    *problems: Problem,
    copies: int = 3,
    max_sandboxes: int | None = None,
    has_cells: bool = True,
    options: ScoreOptions = UNCACHED,
    cache: VerdictCache | None = None,
    events: list[Event] | None = None,
) -> tuple[ScoredCompletion, ...]:
    connection = connect(settings, runtime=RuntimeKind.LOCAL)
    tasks = {each.task_id: each for each in problems}
    completions = [
        Completion(f"{task}-{copy}", task, code=f"{IN_IMAGE}# {copy}") for copy in range(copies) for task in tasks
    ]
    with Job(
        connection,
        job_id=new_job_id(),
        max_lifetime_seconds=120,
        has_cells=has_cells,
        max_sandboxes=max_sandboxes,
    ) as job:
        emit = (lambda _: None) if events is None else events.append
        return score(completions, tasks, job=job, options=options, cache=cache, emit=emit).results


@pytest.mark.parametrize("max_sandboxes", [None, 1])
def test_each_completion_is_judged_in_the_image_of_its_problem(
    settings: Settings, has_cells: bool, max_sandboxes: int | None
) -> None:
    problems = problem("first", named("first")), problem("second", named("second")), problem("none", None)
    results = judged(settings, *problems, max_sandboxes=max_sandboxes, has_cells=has_cells)
    assert [result.reward for result in results] == [1.0] * 9, [result.detail for result in results]
    assert {result.isolation for result in results} == {Isolation.CELL if has_cells else Isolation.SANDBOX}
    images = {task: {each.image.split("@sha256:")[0] for each in results if each.task_id == task} for task in TASKS}
    assert images == {"first": {"tests/first:1"}, "second": {"tests/second:1"}, "none": {""}}


@pytest.mark.slow
def test_more_images_than_workers_share_their_places(settings: Settings) -> None:
    names = [f"many{number}" for number in range(14)]
    results = judged(settings, *(problem(name, named(name)) for name in names), copies=2)
    assert [result.reward for result in results] == [1.0] * 28
    assert {result.isolation for result in results} == {Isolation.CELL}


def test_an_image_that_cannot_be_had_costs_its_own_completions_their_rewards_alone(settings: Settings) -> None:
    events: list[Event] = []
    missing = problem("missing", "oci:/no/such/directory")
    bare = problem("bare", named("bare", python=False))
    results = judged(settings, missing, bare, problem("first", named("first")), events=events)
    by_task = {task: [each for each in results if each.task_id == task] for task in ("missing", "bare", "first")}
    assert [each.reward for each in by_task["first"]] == [1.0] * 3
    assert {(each.reward, each.status) for each in by_task["missing"]} == {(None, Status.INFRASTRUCTURE)}
    assert all(each.detail.startswith("image oci:/no/such/directory: ") for each in by_task["missing"])
    assert {(each.reward, each.status) for each in by_task["bare"]} == {(None, Status.INFRASTRUCTURE)}
    assert all(re.search(r"image .*tests/bare.* cannot judge completions", each.detail) for each in by_task["bare"])
    warnings = [event.message for event in events if isinstance(event, Warned)]
    assert len([each for each in warnings if "oci:/no/such/directory" in each]) == 1


def test_a_verdict_belongs_to_the_content_of_an_image_and_not_to_its_name(settings: Settings, tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path / "verdicts")
    caching = ScoreOptions()
    moving = problem("first", named("moving", "first"))
    first, again = (judged(settings, moving, copies=1, options=caching, cache=cache) for _ in range(2))
    remove(ImageStore(load_settings().cache_dir / "images"), ["tests/moving:1"])
    named("moving", "second")
    moved = judged(settings, moving, copies=1, options=caching, cache=cache)
    assert [(each[0].reward, each[0].cached) for each in (first, again, moved)] == [
        (1.0, False),
        (1.0, True),
        (0.0, False),
    ]


def test_the_tools_of_an_episode_run_in_the_image_of_its_problem(settings: Settings) -> None:
    connection = connect(settings, runtime=RuntimeKind.LOCAL)
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=120) as job:
        place = JobSandboxes(job)
        sandbox = EpisodeSandbox(place, "first", named("first"))
        assert sandbox.run("cat", "/name") == "first"
        sandbox.close()
        lost = EpisodeSandbox(place, "missing", "oci:/no/such/directory")
        assert lost.outcome("true") is None
        assert "oci:/no/such/directory" in lost.loss
