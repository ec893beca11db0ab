"""`sandrl eval`: ask a model, score its answers, print pass@k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandrl.cli.completion import values
from sandrl.cli.options import (
    Concurrency,
    FailUnder,
    Image,
    Json,
    LogDetail,
    MaxSandboxes,
    Out,
    Packages,
    Retries,
    RunName,
    RunsDir,
    Runtime,
    SandboxTags,
    SecondOpinionRate,
    package_names,
)
from sandrl.config.parts import PROBLEMS_HELP
from sandrl.events import LogLevel
from sandrl.rewards.extraction import Extraction
from sandrl.settings import RuntimeKind

if TYPE_CHECKING:
    from sandrl.evaluation import EvalRun

_WHAT = "What to evaluate"
_ENDPOINT = "Endpoint"
_GENERATION = "Generation"


def evaluate(
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="`tiny` (the default), a directory with a model (a checkpoint), a model of the hub (owner/name), or"
            " what the endpoint calls it.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Ask an OpenAI-compatible endpoint instead, with the key in OPENAI_API_KEY, if any.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    problems: Annotated[
        str | None,
        typer.Option(
            metavar="SET|FILE",
            help=f"{PROBLEMS_HELP} Default: `tiny:test` for `tiny`, else `bundled`.",
            rich_help_panel=_WHAT,
            autocompletion=values.problem_sets,
        ),
    ] = None,
    num_problems: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only the first N problems.", rich_help_panel=_WHAT)
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            metavar="K", min=1, help="Answers to each problem. Default: 4, greedy 1.", rich_help_panel=_GENERATION
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(metavar="T", help="Of sampling. Default: 1.", rich_help_panel=_GENERATION)
    ] = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Take the likeliest token always.", rich_help_panel=_GENERATION)
    ] = False,
    max_tokens: Annotated[
        int, typer.Option(metavar="N", help="The longest answer.", rich_help_panel=_GENERATION)
    ] = 512,
    show_tests: Annotated[
        int, typer.Option(metavar="N", min=0, help="Checks a prompt shows.", rich_help_panel=_GENERATION)
    ] = 1,
    batch_size: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Answers at once.", rich_help_panel=_GENERATION)
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Decides what is sampled.", rich_help_panel=_GENERATION)
    ] = 0,
    request_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time for one answer.", rich_help_panel=_ENDPOINT)
    ] = 120.0,
    request_retries: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Further tries when the endpoint does not answer.", rich_help_panel=_ENDPOINT
        ),
    ] = 4,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Go on with an evaluation: ask for the answers that are missing, score what is not scored.",
            rich_help_panel=_WHAT,
            autocompletion=values.run_names,
        ),
    ] = None,
    extract: Annotated[
        Extraction, typer.Option(help="Where in an answer its code is.", rich_help_panel=_WHAT)
    ] = Extraction.AUTO,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time for one answer with its checks.", rich_help_panel=_WHAT)
    ] = 10.0,
    concurrency: Concurrency = None,
    max_sandboxes: MaxSandboxes = None,
    retries: Retries = 2,
    runtime: Runtime = RuntimeKind.AUTO,
    image: Image = None,
    packages: Packages = None,
    tag: SandboxTags = None,
    second_opinion: SecondOpinionRate = 0.0,
    json_: Json = False,
    out: Out = None,
    runs_dir: RunsDir = None,
    run_name: RunName = None,
    log_level: LogDetail = LogLevel.INFO,
    fail_under: FailUnder = None,
) -> None:
    """Ask a model for solutions, score them in sandboxes, and print pass@k."""
    from sandrl.cli import results
    from sandrl.cli.configured import Flags
    from sandrl.cli.output import print_json
    from sandrl.cli.work import carry_out
    from sandrl.config.layers import resolve
    from sandrl.config.scoring import ScoredRunConfig
    from sandrl.errors import UsageError
    from sandrl.evaluation import EvalRequest, run_eval
    from sandrl.models import Sampling

    if greedy and temperature is not None:
        raise UsageError("--greedy and --temperature contradict each other")
    asks_tiny = resume is None and base_url is None and model in (None, "tiny")
    with Flags(ScoredRunConfig):
        scoring = resolve(
            ScoredRunConfig,
            {
                "problems": problems or ("tiny:test" if asks_tiny else "bundled"),
                "extract": extract,
                "timeout_seconds": timeout,
                "concurrency": concurrency,
                "retries": retries,
                "second_opinion": second_opinion,
                "runtime": runtime,
                "image": image,
                "packages": package_names(packages),
                "tags": tuple(tag or ()),
                "max_sandboxes": max_sandboxes,
                "out": out,
                "runs_dir": runs_dir,
                "run_name": run_name,
                "log_level": log_level,
                "fail_under": fail_under,
            },
        )
    request = EvalRequest(
        scoring=scoring,
        model=model,
        base_url=base_url,
        num_problems=num_problems,
        samples=samples,
        sampling=Sampling(0.0 if greedy else 1.0 if temperature is None else temperature, max_tokens),
        show_tests=show_tests,
        batch_size=batch_size,
        seed=seed,
        request_timeout_seconds=request_timeout,
        request_retries=request_retries,
        resume=resume,
    )
    finished = carry_out(run_eval, request, results.choose(json_output=True))
    if json_:
        print_json(_document(finished))
    else:
        _print_summary(finished)
    typer.echo(f"Run: {finished.run.run_dir}", err=True)
    finished.raise_for_outcome()


def _document(finished: EvalRun) -> dict[str, Any]:
    from sandrl.rewards import report_document

    return {
        "model": finished.model,
        "source": finished.run.request.problems,
        "problems": finished.problems,
        "samples": finished.answers,
        "temperature": finished.sampling.temperature,
        "max_tokens": finished.sampling.max_tokens,
        **report_document(finished.run.report),
    }


def _print_summary(finished: EvalRun) -> None:
    from sandrl.cli.scores import disagreement_lines, total_lines
    from sandrl.cli.text import visible

    how = "greedy" if finished.sampling.is_greedy else f"sampled at temperature {finished.sampling.temperature:g}"
    typer.echo(f"Model: {visible(finished.model)}, {how}")
    typer.echo(
        f"Problems: {finished.problems} of {visible(finished.run.request.problems)}, {finished.answers} answers to each"
    )
    summary = finished.run.report.summary
    for line in total_lines(summary):
        typer.echo(line)
    for line in disagreement_lines(finished.run.report.results, hint="sandrl runs show --disagreements"):
        typer.echo(line)
    if list(summary.pass_at_k) == [1]:
        typer.echo(f"pass@1: {summary.pass_at_k[1]:.1%}")
