"""`sandrl reward`: execute completions in sandboxes and print their rewards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sandrl.cli.completion import values
from sandrl.cli.options import (
    PROBLEMS_HELP,
    SANDBOXES_PANEL,
    Concurrency,
    FailUnder,
    Image,
    Json,
    LogDetail,
    MaxSandboxes,
    Out,
    Packages,
    ReportsTo,
    Retries,
    RunName,
    RunsDir,
    Runtime,
    SandboxTags,
    SecondOpinionRate,
    sandbox_request,
)
from sandrl.events import LogLevel
from sandrl.rewards.extraction import Extraction
from sandrl.settings import ReportTo, RuntimeKind

_WHAT = "What to score"
_REWARD = "Reward"


def reward(
    completions: Annotated[
        str | None,
        typer.Argument(
            metavar="COMPLETIONS",
            help="JSONL file with `task_id` and `completion` (or `code`) in each row; `-` for standard input. "
            "Without it: the five completions of the bundled demo.",
        ),
    ] = None,
    problems: Annotated[
        str,
        typer.Option(
            metavar="SET|FILE",
            help=PROBLEMS_HELP,
            rich_help_panel=_WHAT,
            autocompletion=values.problem_sets,
        ),
    ] = "bundled",
    extract: Annotated[
        Extraction, typer.Option(help="Where in a completion its code is.", rich_help_panel=_WHAT)
    ] = Extraction.AUTO,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Skip and count rows that cannot be used.", rich_help_panel=_WHAT)
    ] = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time for one completion with its checks.", rich_help_panel=_WHAT)
    ] = 10.0,
    check_timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Time for each check; none of its own by default.", rich_help_panel=_WHAT),
    ] = None,
    reward_: Annotated[
        str,
        typer.Option(
            "--reward",
            metavar="NAME|MODULE:FUNCTION",
            help="`binary`: all checks or nothing. `fraction`: the share that passed. Or a function of your own of the "
            "verdict and the completion.",
            rich_help_panel=_REWARD,
            autocompletion=values.reward_policies,
        ),
    ] = "binary",
    format_reward: Annotated[
        float,
        typer.Option(
            metavar="WEIGHT",
            min=0,
            help="Component for a completion that is one `<answer>…</answer>`.",
            rich_help_panel=_REWARD,
        ),
    ] = 0.0,
    length_penalty: Annotated[
        float,
        typer.Option(metavar="WEIGHT", min=0, help="Component against long completions.", rich_help_panel=_REWARD),
    ] = 0.0,
    timeout_penalty: Annotated[
        float, typer.Option(metavar="WEIGHT", min=0, help="Component against timeouts.", rich_help_panel=_REWARD)
    ] = 0.0,
    require_isolated: Annotated[
        bool,
        typer.Option(
            "--require-isolated",
            help="No reward where the checks cannot be kept out of the completion's process.",
            rich_help_panel=_WHAT,
        ),
    ] = False,
    cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep verdicts there, and use those of earlier runs.", rich_help_panel=_WHAT),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Run identical completions each for itself.", rich_help_panel=_WHAT)
    ] = False,
    concurrency: Concurrency = None,
    max_sandboxes: MaxSandboxes = None,
    retries: Retries = 2,
    runtime: Runtime = RuntimeKind.AUTO,
    image: Image = None,
    packages: Packages = None,
    tag: SandboxTags = None,
    job_id: Annotated[
        str | None,
        typer.Option("--job-id", help="Id of this job instead of a random one.", rich_help_panel=SANDBOXES_PANEL),
    ] = None,
    second_opinion: SecondOpinionRate = 0.0,
    json_: Json = False,
    out: Out = None,
    runs_dir: RunsDir = None,
    run_name: RunName = None,
    log_level: LogDetail = LogLevel.INFO,
    report_to: ReportsTo = ReportTo.AUTO,
    fail_under: FailUnder = None,
) -> None:
    """Execute completions in isolated sandboxes, each in a fresh one, and print their rewards."""
    from sandrl.cli import results
    from sandrl.cli.output import print_json
    from sandrl.cli.scores import print_report
    from sandrl.cli.work import carry_out
    from sandrl.rewards import Components, Limits, RewardRequest, SecondOpinion, report_document, run_reward

    request = RewardRequest(
        completions=completions,
        problems=problems,
        extraction=extract,
        skip_bad_rows=skip_bad_rows,
        limits=Limits(timeout_seconds=timeout, check_timeout_seconds=check_timeout),
        concurrency=concurrency,
        retries=retries,
        reward=reward_,
        components=Components(format_reward, length_penalty, timeout_penalty),
        caching=not no_cache,
        cache=cache,
        require_isolated=require_isolated,
        second_opinion=SecondOpinion(second_opinion),
        sandboxes=sandbox_request(
            runtime=runtime, image=image, packages=packages, tag=tag, max_sandboxes=max_sandboxes
        ),
        job_id=job_id,
        out=out,
        runs_dir=runs_dir,
        run_name=run_name,
        log_level=log_level,
        report_to=report_to,
        fail_under=fail_under,
    )
    finished = carry_out(run_reward, request, results.choose(json_output=json_))
    if json_:
        print_json(report_document(finished.report))
    else:
        print_report(finished.report)
    typer.echo(f"Run: {finished.run_dir}", err=True)
    finished.raise_for_outcome()
