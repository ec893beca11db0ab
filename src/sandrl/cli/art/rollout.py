"""`sandrl art rollout`: episodes of several turns with a sandbox each, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandrl.cli.completion import values
from sandrl.cli.options import (
    OUTPUT_PANEL,
    Image,
    Json,
    Packages,
    ReportsTo,
    RunName,
    RunsDir,
    Runtime,
    SandboxTags,
    sandbox_request,
)
from sandrl.cli.progress import Remarks
from sandrl.config.parts import PROBLEMS_HELP
from sandrl.events import Event, RolloutStepFinished
from sandrl.rewards.extraction import Extraction
from sandrl.rollouts.kinds import EpisodeKind, ToolSet
from sandrl.settings import ReportTo, RuntimeKind

if TYPE_CHECKING:
    from sandrl.rollouts.request import RolloutRun, StepResult

_WHAT = "What to play"
_EPISODES = "Episodes"
_ENDPOINT = "Endpoint"


def rollout(
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What the endpoint calls it. Default: Qwen/Qwen2.5-3B-Instruct, with --use-openai gpt-4o-mini.",
            rich_help_panel=_ENDPOINT,
        ),
    ] = None,
    use_openai: Annotated[
        bool,
        typer.Option("--use-openai", help="Ask OpenAI, with the key in OPENAI_API_KEY.", rich_help_panel=_ENDPOINT),
    ] = False,
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="An OpenAI-compatible endpoint. Default: OPENAI_BASE_URL, else http://localhost:8000/v1 (vLLM's).",
            rich_help_panel=_ENDPOINT,
        ),
    ] = None,
    temperature: Annotated[float, typer.Option(metavar="T", help="Of sampling.", rich_help_panel=_ENDPOINT)] = 1.0,
    max_tokens: Annotated[int, typer.Option(metavar="N", help="The longest answer.", rich_help_panel=_ENDPOINT)] = 2048,
    request_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time for one answer.", rich_help_panel=_ENDPOINT)
    ] = 120.0,
    request_retries: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Further tries when the endpoint does not answer.", rich_help_panel=_ENDPOINT
        ),
    ] = 4,
    problems: Annotated[
        str,
        typer.Option(metavar="SET|FILE", help=PROBLEMS_HELP, rich_help_panel=_WHAT, autocompletion=values.problem_sets),
    ] = "mbpp",
    dataset_split: Annotated[
        str | None,
        typer.Option(
            metavar="SPLIT", help="Of the problems. Default: train, where there is one.", rich_help_panel=_WHAT
        ),
    ] = None,
    dataset_limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="Only the first N problems; 0: all.", rich_help_panel=_WHAT)
    ] = 100,
    num_steps: Annotated[int, typer.Option(metavar="N", min=1, help="Batches to play.", rich_help_panel=_WHAT)] = 10,
    batch_size: Annotated[
        int, typer.Option(metavar="N", min=1, help="Problems in a batch.", rich_help_panel=_WHAT)
    ] = 4,
    trajectories_per_problem: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Episodes of each, a group; training needs 2 or more.", rich_help_panel=_WHAT
        ),
    ] = 1,
    rollout: Annotated[
        EpisodeKind,
        typer.Option(help="Code in answers, with errors fed back; or calls of tools.", rich_help_panel=_EPISODES),
    ] = EpisodeKind.ATTEMPTS,
    max_attempts: Annotated[
        int, typer.Option(metavar="N", min=1, help="Answers in an episode of attempts.", rich_help_panel=_EPISODES)
    ] = 3,
    tools: Annotated[
        ToolSet,
        typer.Option(help="Execute and submit code, or shell and files, too.", rich_help_panel=_EPISODES),
    ] = ToolSet.CODE,
    max_tool_calls: Annotated[
        int, typer.Option(metavar="N", min=1, help="Calls in an episode with tools.", rich_help_panel=_EPISODES)
    ] = 20,
    show_tests: Annotated[
        int, typer.Option(metavar="N", min=0, help="Checks a prompt shows.", rich_help_panel=_EPISODES)
    ] = 1,
    extract: Annotated[
        Extraction, typer.Option(help="Where in an attempt its code is.", rich_help_panel=_EPISODES)
    ] = Extraction.AUTO,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Time for one command, and for a solution with its checks.",
            rich_help_panel=_EPISODES,
        ),
    ] = 10.0,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", "-c", min=1, help="Episodes at once. Default: 32.", rich_help_panel=_EPISODES),
    ] = None,
    runtime: Runtime = RuntimeKind.AUTO,
    image: Image = None,
    packages: Packages = None,
    tag: SandboxTags = None,
    learning_rate: Annotated[
        float,
        typer.Option(metavar="RATE", help="Kept with the run, for a later training.", rich_help_panel=OUTPUT_PANEL),
    ] = 2e-5,
    project: Annotated[
        str, typer.Option(metavar="NAME", help="Kept with the run; W&B's project, too.", rich_help_panel=OUTPUT_PANEL)
    ] = "aviato-rl-demo",
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Rollouts without training: what this command does anyway. It does ask the model.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = False,
    json_: Json = False,
    runs_dir: RunsDir = None,
    run_name: RunName = None,
    report_to: ReportsTo = ReportTo.AUTO,
) -> None:
    """Let a model solve problems in sandboxes over several turns, and keep every trajectory; nothing is trained."""
    from sandrl.cli.output import print_json
    from sandrl.cli.work import carry_out
    from sandrl.models import Sampling
    from sandrl.rewards import Limits
    from sandrl.rollouts.episodes import EpisodeOptions
    from sandrl.rollouts.request import RolloutRequest
    from sandrl.rollouts.run import run_rollouts

    request = RolloutRequest(
        model=model,
        use_openai=use_openai,
        base_url=base_url,
        problems=problems,
        dataset_split=dataset_split,
        dataset_limit=dataset_limit,
        num_steps=num_steps,
        batch_size=batch_size,
        trajectories_per_problem=trajectories_per_problem,
        episode=EpisodeOptions(
            kind=rollout,
            tool_set=tools,
            max_tool_calls=max_tool_calls,
            max_attempts=max_attempts,
            show_tests=show_tests,
            extraction=extract,
        ),
        sampling=Sampling(temperature, max_tokens),
        request_timeout_seconds=request_timeout,
        request_retries=request_retries,
        concurrency=concurrency,
        limits=Limits(timeout_seconds=timeout),
        project=project,
        learning_rate=learning_rate,
        sandboxes=sandbox_request(runtime=runtime, image=image, packages=packages, tag=tag),
        runs_dir=runs_dir,
        run_name=run_name,
        report_to=report_to,
    )
    finished = carry_out(run_rollouts, request, Remarks() if json_ else _Steps())
    if json_:
        print_json(_document(finished))
    else:
        _print_total(finished)
    typer.echo(f"Run: {finished.run_dir}", err=True)
    finished.raise_for_outcome()


class _Steps(Remarks):
    """One line for each step."""

    def __call__(self, event: Event) -> None:
        """Shows the event."""
        if isinstance(event, RolloutStepFinished):
            figures = _figures(event.reward, event.passed, event.scored, event.dropped, event.seconds)
            typer.echo(f"Step {event.step}: {figures}")
        else:
            super().__call__(event)


def _figures(reward: float | None, passed: int, scored: int, dropped: int, seconds: float) -> str:
    mean = "–" if reward is None else f"{reward:.3f}"
    rate = f"{passed / scored:.1%}" if scored else "–"
    lost = f", dropped={dropped}" if dropped else ""
    return f"reward={mean}, success={rate} ({passed}/{scored}), time={seconds:.1f}s{lost}"


def _print_total(finished: RolloutRun) -> None:
    total = finished.total
    steps = f"{finished.finished} of {finished.of} steps" if finished.signal_number else f"{finished.of} steps"
    figures = _figures(total.mean_reward, total.passed, len(total.rewards), total.dropped, total.seconds)
    typer.echo(f"Total of {steps}: {figures}")


def _document(finished: RolloutRun) -> dict[str, Any]:
    return {
        "job_id": finished.job_id,
        "run_dir": str(finished.run_dir),
        "model": finished.model,
        "steps": [{"step": step.step, **_step_document(step)} for step in finished.steps],
        "total": {"steps": finished.finished, **_step_document(finished.total)},
    }


def _step_document(step: StepResult) -> dict[str, Any]:
    scored = len(step.rewards)
    return {
        "reward": step.mean_reward,
        "success": step.passed / scored if scored else None,
        "passed": step.passed,
        "scored": scored,
        "dropped": step.dropped,
        "seconds": round(step.seconds, 3),
    }
