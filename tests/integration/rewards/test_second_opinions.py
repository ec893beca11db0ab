"""Failed completions are judged again in one process, in real sandboxes, and nothing else changes for it."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import sandrl
from sandrl.config import layers
from sandrl.config.scoring import RegradeConfig, RewardConfig
from sandrl.errors import UsageError
from sandrl.events import (
    CompletionFinished,
    Event,
    ExecutionFinished,
    LogLevel,
    OpinionFinished,
    OpinionsAwaited,
    ignore,
)
from sandrl.events.results import ScoredCompletion, Status
from sandrl.judge.guest_report import Execution
from sandrl.judge.judge import Judge
from sandrl.problems import Case, Completion, Problem
from sandrl.problems.splits import Splits
from sandrl.rewards import (
    Limits,
    ScoreOptions,
    ScoreReport,
    SecondOpinion,
    VerdictCache,
    run_reward,
    score,
    score_run,
)
from sandrl.rewards.function import FunctionOptions, step_opinions
from sandrl.rewards.regrade import regrade
from sandrl.runs import (
    OPINION_TAG,
    MetricsRecorder,
    MetricsRow,
    RunReader,
    RunWriter,
    SandboxEvent,
    disagreements,
    step_rows,
)
from sandrl.runs.processes import Processes
from sandrl.runs.selection import RowSelection
from sandrl.runs.session import RunSession
from sandrl.sandboxes import Interrupt, Job, connect, new_job_id
from sandrl.sandboxes.inventory import Inventory
from sandrl.scoring.opinions import OpinionMemory
from sandrl.settings import RuntimeKind, Settings
from sandrl.trainers.config import resolve
from sandrl.trainers.interrupts import TrainingInterrupt
from sandrl.trainers.plan import Context
from sandrl.trainers.rewarding import TrainingReward
from tests.support.dead_daemon import kill_daemon
from tests.support.judges import reward_config

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2",))
ECHO = Problem("echo", "Print what you read.", cases=(Case("a\n", "a\n"),))
RIGHT, WRONG = "def f(x):\n    return x + 1\n", "def f(x):\n    return x\n"
# Its check holds only where it shares a namespace with the completion.
SHARED = Problem("shared", "Add one.", tests=("assert f.__globals__ is globals() and f(1) == 2",), reference=RIGHT)
LIAR = "class L:\n    def __eq__(self, other):\n        return True\ndef f(x):\n    return L()\n"
SLOW_LIAR = LIAR.replace("return True", "__import__('time').sleep(20)\n        return True")
ENDLESS = "def f(x):\n    while True:\n        pass\n"
ALL = ScoreOptions(concurrency=4, limits=Limits(timeout_seconds=2), second_opinion=SecondOpinion(1.0))


def score_codes(
    job: Job,
    *codes: str,
    options: ScoreOptions = ALL,
    problem: Problem = INC,
    told: list[Event] | None = None,
    judge: Judge | None = None,
    cache: VerdictCache | None = None,
    opinions: OpinionMemory | None = None,
    interrupt: Interrupt | None = None,
) -> ScoreReport:
    completions = [Completion(f"c{number}", problem.task_id, code=code) for number, code in enumerate(codes)]
    return score(
        completions,
        {problem.task_id: problem},
        job=job,
        options=options,
        judge=judge,
        cache=cache,
        opinions=opinions,
        interrupt=interrupt,
        emit=lambda event: None if told is None else told.append(event),
    )


def words(report: ScoreReport) -> list[str | None]:
    opinions = [result.second_opinion for result in report.results]
    return [None if opinion is None else opinion.status.value for opinion in opinions]


def totals(report: ScoreReport) -> tuple[int, int, int]:
    found = report.summary.second_opinion
    assert found is not None
    return found.asked, found.disagreements, found.unavailable


def test_a_completion_that_passes_only_in_one_process_is_reported_and_stays_unrewarded(job: Job) -> None:
    told: list[Event] = []
    report = score_codes(job, RIGHT, WRONG, LIAR, told=told)
    assert [result.reward for result in report.results] == [1.0, 0.0, 0.0]
    assert words(report) == [None, "failed", "passed"]
    assert totals(report) == (2, 1, 0)
    found = {event.result.index: event for event in told if isinstance(event, OpinionFinished)}
    assert {index: event.opinion.is_disagreement for index, event in found.items()} == {1: False, 2: True}
    assert found[2].result.sandbox_id == report.results[2].sandbox_id != found[2].opinion.sandbox_id
    assert sum(isinstance(event, ExecutionFinished) for event in told) == 3, "an opinion is no execution"
    assert (report.summary.executions, report.summary.reruns) == (3, 0)


def test_without_a_rate_nothing_is_asked(job: Job) -> None:
    told: list[Event] = []
    report = score_codes(job, WRONG, LIAR, options=ScoreOptions(), told=told)
    assert words(report) == [None, None]
    assert report.summary.second_opinion is None
    assert not any(isinstance(event, OpinionFinished) for event in told)


def test_only_failures_of_isolated_checks_are_asked_about(job: Job) -> None:
    assert words(score_codes(job, "", "def f(x: return x", ENDLESS, "import os\nos._exit(3)\n")) == [
        None, None, "timeout", "crashed",
    ]  # fmt: skip
    assert words(score_codes(job, "print('b')", problem=ECHO)) == [None]
    in_process = score_codes(job, WRONG, problem=SHARED)
    assert [result.trust for result in in_process.results] == ["in_process"]
    assert words(in_process) == [None]
    refused = score_codes(job, WRONG, problem=SHARED, judge=Judge(require_isolated=True))
    assert [result.status for result in refused.results] == [Status.NOT_ISOLATED]
    assert words(refused) == [None]


def test_identical_completions_share_an_opinion_within_a_batch_and_across_batches(job: Job) -> None:
    cache, opinions = VerdictCache(), OpinionMemory()
    first = score_codes(job, LIAR, LIAR, cache=cache, opinions=opinions)
    again = score_codes(job, LIAR, cache=cache, opinions=opinions)
    found = [result.second_opinion for result in (*first.results, *again.results)]
    assert [opinion.sandboxes for opinion in found if opinion is not None] == [1, 0, 0]
    assert (totals(first), totals(again)) == ((2, 2, 0), (1, 1, 0))
    each = score_codes(job, LIAR, LIAR, options=replace(ALL, caching=False))
    assert [result.second_opinion.sandboxes for result in each.results if result.second_opinion] == [1, 1]


def test_results_come_first_and_do_not_wait(job: Job) -> None:
    told: list[Event] = []
    codes = [f"{WRONG}# {number}" for number in range(6)]
    report = score_codes(job, *codes, options=replace(ALL, concurrency=1), told=told)
    kinds = [type(event) for event in told if isinstance(event, CompletionFinished | OpinionFinished)]
    assert kinds == [CompletionFinished] * 6 + [OpinionFinished] * 6
    assert totals(report) == (6, 0, 0)


class _LosesOpinions(Judge):
    """Runs a program that says nothing where an opinion is wanted: what a broken sandbox leaves."""

    def prepare_opinion(self, problem: Problem, code: str, limits: Limits) -> Execution | None:
        execution = super().prepare_opinion(problem, code, limits)
        assert execution is not None
        return replace(execution, command=replace(execution.command, argv=("true",)))


def test_an_opinion_that_was_lost_counts_as_unavailable_and_as_nothing_else(job: Job) -> None:
    report = score_codes(job, LIAR, WRONG, LIAR, judge=_LosesOpinions())
    assert words(report) == ["infrastructure"] * 3
    assert totals(report) == (3, 0, 3)
    assert [result.status for result in report.results] == [Status.FAILED] * 3


def test_an_opinion_whose_runtime_ends_is_sought_again_at_the_next_one(settings: Settings) -> None:
    connection = connect(settings, runtime=RuntimeKind.LOCAL)
    # Its verdict is there at once; its opinion takes a second, in which the daemon is killed.
    liar = LIAR.replace("return True", "__import__('time').sleep(1)\n        return True")

    def strike(inventory: Inventory, job_id: str) -> None:
        while not inventory.list(tags=[job_id, OPINION_TAG]):
            time.sleep(0.02)
        kill_daemon(settings.state_dir)

    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=120) as job:
        killer = threading.Thread(target=strike, args=(Inventory(connection), job.id))
        killer.start()
        report = score([Completion("c", "inc", code=liar)], {"inc": INC}, job=job, options=replace(ALL, retries=0))
    killer.join()
    assert (words(report), totals(report)) == (["passed"], (1, 1, 0))
    assert report.results[0].second_opinion is not None
    assert report.results[0].second_opinion.sandboxes == 2
    assert (report.summary.executions, report.summary.retries) == (1, 0)


@pytest.mark.parametrize(
    ("wishes", "codes", "opinions"),
    [
        pytest.param(1, [f"{LIAR}# {number}" for number in range(5)], ["passed", None, None, None, None], id="stop"),
        pytest.param(2, [RIGHT, SLOW_LIAR], [None, None], id="cancel"),
    ],
)
def test_after_a_wish_to_stop_no_opinion_is_begun_and_those_at_work_are_finished_or_cancelled(
    job: Job, wishes: int, codes: list[str], opinions: list[str | None]
) -> None:
    interrupt = Interrupt()

    class _Stops(Judge):
        def prepare_opinion(self, problem: Problem, code: str, limits: Limits) -> Execution | None:
            for _ in range(wishes):
                interrupt.request(signal.SIGINT)
            return super().prepare_opinion(problem, code, limits)

    report = score_codes(job, *codes, options=replace(ALL, concurrency=1), judge=_Stops(), interrupt=interrupt)
    assert report.unfinished == 0
    assert words(report) == opinions
    assert [result.reward for result in report.results] == [float(code == RIGHT) for code in codes]
    if wishes == 1:
        assert totals(report) == (1, 1, 0)


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan"), float("inf")])
def test_a_rate_that_is_no_share_is_refused(job: Job, rate: float) -> None:
    with pytest.raises(UsageError, match="second_opinion must be a number from 0 to 1"):
        score_codes(job, options=ScoreOptions(second_opinion=SecondOpinion(rate)))
    with pytest.raises(UsageError, match="second_opinion"):
        layers.resolve(RewardConfig, {"second_opinion": rate})
    with pytest.raises(UsageError, match="second_opinion"):
        sandrl.reward_function([INC], second_opinion=rate)


def test_a_run_keeps_opinions_apart_and_its_counts_reconcile(settings: Settings, tmp_path: Path) -> None:
    finished = run_reward(
        reward_config(tmp_path, INC, [RIGHT, WRONG, LIAR, LIAR, "def f(x: return"], second_opinion=1.0), settings
    )
    reader = RunReader(finished.run_dir)
    assert disagreements(reader, is_complete=True) == ()
    opinions = reader.opinions().rows
    assert sorted((row.index, row.status, row.opinion.status, row.opinion.sandboxes) for row in opinions) == [
        (1, "failed", "failed", 1), (2, "failed", "passed", 1), (3, "failed", "passed", 0),
    ]  # fmt: skip
    intents = [row for row in reader.sandboxes().rows if row.event is SandboxEvent.INTENT]
    assert sum(OPINION_TAG in row.tags for row in intents) == 2
    [metrics] = reader.metrics().rows
    names = ("judge/second_opinions", "judge/disagreements", "judge/unavailable_opinions", "executions")
    assert [metrics.metrics[name] for name in names] == [3, 2, 0, 4]
    assert (metrics.metrics["aviato/executions"], metrics.metrics["aviato/sandboxes_created"]) == (4, 1)
    assert (metrics.metrics["reward/total"], metrics.metrics["reruns"]) == (1.0, 0)
    chosen = RowSelection(disagreements=True).choose(reader.trajectories().rows)
    assert [row.index for row in chosen] == [2, 3]


def test_completions_that_come_in_batches_keep_their_numbers_and_share_opinions(
    settings: Settings, tmp_path: Path
) -> None:
    told: list[Event] = []
    batches = [[Completion(f"{batch}.{number}", "inc", code=code) for number, code in enumerate((RIGHT, LIAR))]
               for batch in range(3)]  # fmt: skip
    wanted = reward_config(tmp_path, INC, [], second_opinion=1.0)
    finished = score_run(wanted, lambda _: batches, {"inc": INC}, settings, total=6, command="eval", emit=told.append)
    reader = RunReader(finished.run_dir)
    assert disagreements(reader, is_complete=True) == ()
    opinions = [(row.index, row.id, row.opinion.sandboxes) for row in reader.opinions().rows]
    assert opinions == [(1, "0.1", 1), (3, "1.1", 0), (5, "2.1", 0)]
    rows = sorted(reader.trajectories().rows, key=lambda row: row.index)  # they are in the order of their ends
    assert [row.second_opinion is not None for row in rows] == [False, True] * 3
    assert totals(finished.report) == (3, 3, 0)
    awaited = [event for event in told if isinstance(event, OpinionsAwaited)]
    assert awaited == [], "only the last batch is waited for, and its opinion was there"


def test_of_a_run_without_metrics_opinions_are_counted_from_its_rows(settings: Settings, tmp_path: Path) -> None:
    finished = run_reward(reward_config(tmp_path, INC, [WRONG, LIAR], second_opinion=1.0), settings)
    (finished.run_dir / "metrics.jsonl").unlink()
    [row] = step_rows(RunReader(finished.run_dir))
    assert (row.metrics["judge/second_opinions"], row.metrics["judge/disagreements"]) == (2, 1)


def test_a_second_run_asks_about_the_same_completions(settings: Settings, tmp_path: Path) -> None:
    codes = [f"{WRONG}# {number}" for number in range(12)]
    asked = []
    for rate in (0.5, 0.5, 0.8):
        report = run_reward(reward_config(tmp_path, INC, codes, second_opinion=rate), settings).report
        asked.append({result.index for result in report.results if result.second_opinion is not None})
    assert asked[0] == asked[1] < asked[2]
    assert 0 < len(asked[0]) < 12


def test_a_trainer_s_batch_has_them_in_its_report_and_never_waits_for_long_ones(job: Job) -> None:
    logged: dict[str, float] = {}
    with sandrl.reward_function([INC], job=job, second_opinion=1.0, limits=Limits(timeout_seconds=30)) as function:
        patience = function._options.score.second_opinion.patience_seconds
        assert patience is not None
        assert patience < 20, "shorter than the slow one takes"
        texts = [f"<answer>{code}</answer>" for code in (RIGHT, LIAR, SLOW_LIAR)]
        rewards = function(["Add one."] * 3, texts, log_metric=lambda name, value: logged.update({name: value}))
        assert rewards == [1.0, 0.0, 0.0]
        assert function.last_report is not None
        assert words(function.last_report) == [None, "passed", "infrastructure"]
        assert logged["sandrl/disagreements"] == 1
        # What was given up is the job's to collect, and disturbs no later batch.
        assert function(["Add one."], [f"<answer>{RIGHT}</answer>"]) == [1.0]


def test_a_trainer_s_batch_leaves_timeouts_out(job: Job) -> None:
    with sandrl.reward_function([INC], job=job, second_opinion=1.0, limits=Limits(timeout_seconds=1)) as function:
        assert function(["Add one."], [f"<answer>{ENDLESS}</answer>"]) == [0.0]
        assert function.last_report is not None
        assert words(function.last_report) == [None]


async def test_a_training_step_counts_its_opinions_and_keeps_them_with_the_step(
    job: Job, settings: Settings, tmp_path: Path
) -> None:
    counter = MetricsRecorder()
    sets = Splits(train={"inc": INC}, evaluation={"inc": INC}, is_held_out=False)
    config = resolve({"model": "tiny", "second_opinion": 1.0, "timeout_seconds": 2.0})
    context = Context(config, settings, sets, Processes(), TrainingInterrupt(), counter)
    writer = RunWriter.create(tmp_path, command="grpo", job_id=job.id, name="run")
    with writer:
        options = FunctionOptions(ScoreOptions(second_opinion=step_opinions(config.second_opinion)))
        session = RunSession(writer, LogLevel.INFO, Interrupt(), ignore)
        session.attempt = 2
        reward = TrainingReward(context, options, job=job, session=session)
        for step, is_evaluation, codes in ((3, True, [LIAR]), (3, False, [WRONG, LIAR])):
            rewards = await reward(
                ["Add one."] * len(codes),
                [f"<answer>{code}</answer>" for code in codes],
                is_evaluation=[is_evaluation] * len(codes),
                trainer_state=SimpleNamespace(global_step=step),
                completion_ids=[[1]] * len(codes),
            )
            assert rewards == [0.0] * len(codes)
            counted = counter.take()
        writer.append(MetricsRow(job_id=job.id, step=3, attempt=2, metrics=counted.metrics))
    assert (counted.metrics["judge/second_opinions"], counted.metrics["judge/disagreements"]) == (2, 1)
    assert [(call.second_opinions, call.disagreements) for call in counted.calls] == [(2, 1)]
    reader = RunReader(writer.path)
    rows = [(row.held_out, row.step, row.attempt, row.second_opinion) for row in reader.trajectories().rows]
    assert sorted((*place, None if opinion is None else opinion.status) for *place, opinion in rows) == [
        (False, 3, 2, "failed"), (False, 3, 2, "passed"), (True, 3, 2, "passed"),
    ]  # fmt: skip
    wrong = [line for line in disagreements(reader, is_complete=True) if "sandboxes" not in line]
    assert wrong == [], "the job of this test keeps no ledger, and everything else agrees"


def test_a_run_that_is_judged_again_can_have_opinions_too(settings: Settings, tmp_path: Path) -> None:
    run = run_reward(reward_config(tmp_path, INC, [WRONG, RIGHT, LIAR]), settings).run_dir
    before = {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()}
    asked = RegradeConfig(run=str(run), runtime=RuntimeKind.LOCAL, second_opinion=1.0)
    found = regrade(asked, settings)
    assert found.second_opinion is not None
    assert (found.second_opinion.asked, found.second_opinion.disagreements, len(found.flips)) == (2, 1, 0)
    saved = RunReader(run).trajectories().rows
    assert [saved[[row.index for row in saved].index(each.index)].code for each in found.disagreements] == [LIAR]
    assert {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()} == before


def test_each_result_is_handed_out_without_its_opinion(job: Job) -> None:
    told: list[ScoredCompletion] = []
    completions = [Completion("c", "inc", code=LIAR)]
    report = score(completions, {"inc": INC}, job=job, options=ALL, on_result=told.append)
    assert [result.second_opinion for result in told] == [None]
    assert replace(report.results[0], second_opinion=None) == told[0]
