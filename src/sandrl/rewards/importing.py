"""A run of other programs as a run of sandrl: documents of ATIF, and jobs of Harbor with their rewards.

Nothing is judged and nothing runs here. A reward is the one that was given there, and a trial whose sandbox, model or
verifier failed has none. With the tasks (`problems`), a trial whose verifier needs nothing but collected artifacts gets
a final state of these, so `runs regrade` can judge it again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from pydantic import JsonValue, ValidationError

from sandrl.errors import InputError, RunOutcome
from sandrl.events import Emit, Warned, ignore
from sandrl.events.results import CheckStatus, ScoredCompletion, Status
from sandrl.files import read_regular
from sandrl.problems import Completion, Problem, load_problems
from sandrl.problems.problem_records import KeptProblems
from sandrl.problems.tasks.task import Task, VerifierMode
from sandrl.rewards.harbor_jobs import LARGEST_DOCUMENT, Trial, find_trials, turns_of
from sandrl.runs import RunReader, RunWriter, TrajectoryRow
from sandrl.runs.atif import HAS_DIALOGUE, branches_of, first_error, messages_of, own_facts, tools_of
from sandrl.runs.config import TOOL_SCHEMAS
from sandrl.runs.overview import counted_rows
from sandrl.runs.rows import BranchRow, MessageRow
from sandrl.runs.writer import own_versions
from sandrl.sandboxes import new_job_id
from sandrl.scoring.records import Place, trajectory_row
from sandrl.settings import Settings
from sandrl.trials.entries import Entry, archived
from sandrl.trials.reports import read_checks
from sandrl.trials.reward_files import score_of
from sandrl.trials.state import add_state, states_of

COMMAND = "runs import"

_MOST_CONTINUATIONS = 100
_NO_REWARD = "the document has no reward"


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A run that was imported.

    Attributes:
        unrewarded: How many completions have no reward.
        judgeable: How many can be judged again.
    """

    path: Path
    completions: int
    unrewarded: int
    judgeable: int


@dataclass(frozen=True, slots=True)
class _Found:
    """A completion of another program, before it belongs to a run."""

    result: ScoredCompletion
    messages: tuple[MessageRow, ...] = ()
    branches: tuple[BranchRow, ...] = ()
    tokens: Mapping[str, int] | None = None
    episode: Mapping[str, JsonValue] | None = None
    tools: tuple[dict[str, Any], ...] = ()
    model: str | None = None
    agent: str = ""
    trial: Trial | None = None
    own: Mapping[str, Any] | None = None


def import_run(
    source: Path,
    settings: Settings,
    *,
    problems: str | None = None,
    name: str | None = None,
    runs_dir: Path | None = None,
    emit: Emit = ignore,
) -> ImportedRun:
    """Makes a run of a file or a directory.

    Args:
        source: A document of ATIF, a file with one in each line, a directory of documents, or of a trial, a job or jobs
            of Harbor.
        problems: The tasks, as `load_problems` takes them.
        name: Of the run; one is made unless given.

    Raises:
        InputError: If something cannot be read, or there is nothing to import.
        UsageError: If the name is taken.
    """
    known = {} if problems is None else load_problems(problems).problems
    found = list(_found(source, known, emit))
    if not found:
        raise InputError(
            "has neither documents of ATIF nor trials of Harbor",
            path=source,
            hint="name a document, a directory of documents, or the directory of a job (jobs/NAME)",
        )
    options: dict[str, JsonValue] = {"source": str(source.absolute()), "problems": problems}
    options |= {"model": _only(each.model for each in found), "agent": _only(each.agent for each in found)}
    if tools := next((each.tools for each in found if each.tools), ()):
        options[TOOL_SCHEMAS] = list(tools)
    job_id = new_job_id()
    with RunWriter.create(
        runs_dir or settings.runs_dir,
        command=COMMAND,
        job_id=job_id,
        state_dir=settings.state_dir,
        name=name,
        options=options,
        versions=own_versions(),
        secrets=settings.secrets,
    ) as writer:
        kept = KeptProblems(writer)
        rows = [_row(each, number, job_id, writer, kept, known) for number, each in enumerate(found)]
        for row in rows:
            writer.append(row)
        for metrics in counted_rows(RunReader(writer.path)):
            writer.append(metrics)
        writer.finish(RunOutcome.FINISHED)
    unrewarded = sum(row.reward is None for row in rows)
    return ImportedRun(writer.path, len(rows), unrewarded, sum(bool(row.states) for row in rows))


def _row(
    found: _Found, index: int, job_id: str, writer: RunWriter, kept: KeptProblems, problems: Mapping[str, Problem]
) -> TrajectoryRow:
    problem = problems.get(found.result.task_id)
    result = replace(found.result, index=index)
    if found.trial is not None and problem is not None and problem.task is not None:
        result = replace(result, states=_states(found.trial, problem.task, writer.path))
    row = trajectory_row(
        result,
        Completion(result.id, result.task_id),
        Place(job_id),
        problem=None if problem is None else kept.digest_of(problem),
        messages=found.messages,
        branches=found.branches,
        dropped=result.status.is_lost,
        tokens=dict(found.tokens or {}),
        episode=dict(found.episode or {}),
    )
    if not found.own:
        return row
    own = {name: value for name, value in found.own.items() if name in TrajectoryRow.model_fields}
    try:
        restored = TrajectoryRow.model_validate(
            {
                **own,
                "index": index,
                "job_id": job_id,
                "problem": row.problem,
                "messages": row.messages,
                "branches": row.branches,
            }
        )
    except ValidationError as error:
        raise InputError(f"{result.id}: extra.sandrl is damaged: {first_error(error)}") from error
    # The steps of one answer were made of it.
    return restored if found.own.get(HAS_DIALOGUE) else restored.model_copy(update={"messages": ()})


# The state that a verifier needs which is given collected files alone: these files, over the image of the task.
def _states(trial: Trial, task: Task, run: Path) -> tuple[str, ...]:
    if any(step.verifier.mode is not VerifierMode.SEPARATE for step in task.steps):
        return ()
    artifacts = trial.artifacts()
    if artifacts is None or len(artifacts) > len(task.steps):
        return ()
    return tuple(add_state(states_of(run), "", None, partial(_write, entries)).digest for entries in artifacts)


def _write(entries: Sequence[Entry], file: IO[bytes]) -> None:
    file.write(archived(entries))


def _found(source: Path, problems: Mapping[str, Problem], emit: Emit) -> Iterator[_Found]:
    if not source.is_dir():
        yield from (_of_document(document, source) for document in _documents(source))
        return
    trials = find_trials(source)
    for path in trials:
        yield _of_trial(Trial(path), problems)
    if trials:
        return
    others = 0
    for path in sorted(source.rglob("*.json*")):
        if path.suffix not in (".json", ".jsonl") or not path.is_file():
            continue
        documents = [each for each in _objects(path) if "schema_version" in each and "steps" in each]
        others += not documents
        yield from (_of_document(_checked(each, path), path) for each in documents)
    if others:
        emit(Warned(f"{others} files in {source} are not documents of ATIF, and were left out"))


def _of_document(document: Any, path: Path) -> _Found:
    own = own_facts(document)
    name = document.trajectory_id or document.session_id or path.stem
    result = ScoredCompletion(
        index=0,
        id=str(own.get("id", name)),
        task_id=str(own.get("task_id", name)),
        reward=None,
        status=Status.ABSTAINED,
        trust=None,
        passed=0,
        total=0,
        duration_seconds=0.0,
        sandbox_id=None,
        detail=_NO_REWARD,
    )
    return _Found(
        result,
        tuple(messages_of(document.steps)),
        tuple(branches_of(document)),
        _tokens(document),
        {},
        tuple(tools_of(document)),
        document.agent.model_name,
        document.agent.name,
        own=own,
    )


def _of_trial(trial: Trial, problems: Mapping[str, Problem]) -> _Found:
    said = trial.result
    messages, documents, is_continued = _said_in(trial)
    model = said.agent_info.model_info
    rewards = None if said.verifier_result is None else said.verifier_result.rewards
    loss, status, score = said.loss, Status.INFRASTRUCTURE, None
    if not loss and not rewards:
        loss = "the trial has no reward"
    elif not loss and rewards and not all(map(math.isfinite, rewards.values())):
        loss = "the trial has a reward that is not finite"
    elif not loss and rewards:
        score = score_of(rewards)
        status = Status.PASSED if score >= 1 else Status.FAILED
    checks = read_checks(trial.verifier_files())
    counted = [each for each in checks if each.status is not CheckStatus.NOT_RUN]
    passed = sum(each.status is CheckStatus.PASSED for each in counted)
    if not counted or (status is Status.PASSED and passed < len(counted)):
        counted, passed = list(checks[:1]), int(status is Status.PASSED)
    phases = {
        "setup": said.environment_setup,
        "install": said.agent_setup,
        "agent": said.agent_execution,
        "verifier": said.verifier,
    }
    contexts = said.contexts
    tokens = {
        "prompt": sum(each.n_input_tokens or 0 for each in contexts),
        "completion": sum(each.n_output_tokens or 0 for each in contexts),
    }
    whole = None if not said.started_at or not said.finished_at else said.finished_at - said.started_at
    result = ScoredCompletion(
        index=0,
        id=said.trial_name,
        task_id=_task_id(said.task_name, said.task_id, problems),
        reward=score,
        status=status,
        trust=None,
        passed=passed,
        total=max(len(counted), 1),
        duration_seconds=0.0 if whole is None else max(whole.total_seconds(), 0.0),
        sandbox_id=None,
        detail=loss or ("" if score is None or score >= 1 else f"the verifier gave {score:g}"),
        checks=checks,
        score=score,
        scores=dict(rewards) if rewards and rewards.keys() != {"reward"} and score is not None else {},
        phases={name: seconds for name, each in phases.items() if each and (seconds := each.seconds) is not None},
    )
    episode: dict[str, JsonValue] = {"end": said.end or "finished", **({"continued": True} if is_continued else {})}
    return _Found(
        result,
        messages,
        tuple(each for part in documents for each in branches_of(part, keeps_tokens=not is_continued)),
        {name: count for name, count in tokens.items() if count},
        episode,
        tuple(tools_of(documents[0])) if documents else (),
        None if model is None else model.name,
        said.agent_info.name,
        trial,
    )


def _said_in(trial: Trial) -> tuple[tuple[MessageRow, ...], list[Any], bool]:
    documents: list[Any] = []
    messages: list[MessageRow] = []
    is_continued = False
    for path in trial.trajectories:
        [*parts] = _continued(path)
        documents += parts
        is_continued |= len(parts) > 1
        for part in parts:
            steps = [step for step in part.steps if part is parts[0] or not step.is_copied_context]
            # The model has not seen what was said before a continuation, so its turns are not to be trained on.
            messages += messages_of(steps, keeps_tokens=len(parts) == 1)
    turns = turns_of(trial.result.contexts)
    spoken = [place for place, each in enumerate(messages) if each.role == "assistant"]
    if not is_continued and len(turns) == len(spoken):
        for place, (tokens, logprobs) in zip(spoken, turns, strict=True):
            if not messages[place].tokens and len(tokens) == len(logprobs):
                told = {"tokens": tuple(f"token_id:{each}" for each in tokens), "logprobs": tuple(logprobs)}
                messages[place] = messages[place].model_copy(update=told)
    return tuple(messages), documents, is_continued


def _continued(path: Path) -> Iterator[Any]:
    # A reference names a file beside its own.
    seen: set[str] = set()
    following: str | None = path.name
    while following and following not in seen and len(seen) < _MOST_CONTINUATIONS:
        seen.add(following)
        place = path.parent / following
        if not place.is_file():
            return
        [document] = _documents(place)
        yield document
        following = Path(document.continued_trajectory_ref or "").name


def _documents(path: Path) -> list[Any]:
    return [_checked(each, path) for each in _objects(path)]


def _objects(path: Path) -> list[dict[str, Any]]:
    try:
        text = read_regular(path, LARGEST_DOCUMENT).decode("utf-8")
        texts = [line for line in text.splitlines() if line.strip()] if path.suffix == ".jsonl" else [text]
        values = [json.loads(each) for each in texts]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON: {error}", path=path) from error
    found = (each for value in values for each in (value if isinstance(value, list) else [value]))
    return [each for each in found if isinstance(each, dict)]


def _checked(value: dict[str, Any], path: Path) -> Any:
    from atif import Trajectory

    try:
        return Trajectory.model_validate(value)
    except (ValidationError, RecursionError) as error:
        why = first_error(error) if isinstance(error, ValidationError) else "it is too deep"
        raise InputError(f"is not a document of ATIF: {why}", path=path) from error


def _task_id(name: str, task: Mapping[str, Any], problems: Mapping[str, Problem]) -> str:
    # A set names its tasks by their directories, or by their own names.
    names = (name, name.rpartition("/")[2], Path(str(task.get("path", ""))).name)
    return next((each for each in names if each in problems), name)


def _tokens(document: Any) -> dict[str, int]:
    totals = document.final_metrics
    if totals is None:
        return {}
    found = {"prompt": totals.total_prompt_tokens, "completion": totals.total_completion_tokens}
    return {name: count for name, count in found.items() if count}


def _only(values: Iterable[str | None]) -> str | None:
    found = {value for value in values if value}
    return found.pop() if len(found) == 1 else None
