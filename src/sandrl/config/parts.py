"""The parts that configurations are made of, each with the fields of one subject.

A command's model inherits from its parts. Pydantic collects the fields of the last base first, so the part that a
reader should see first is named last.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self, TypeAlias

from pydantic import Field, model_validator

from sandrl.addresses import check_model_address
from sandrl.config.fields import (
    EPISODES,
    GENERATION,
    MODEL,
    OUTPUT,
    PROBLEMS,
    REWARD,
    SANDBOXES,
    SCORING,
    Option,
)
from sandrl.config.model import BudgetText, Config, Count, RuntimeName, Seconds, Share, Tries, Weight
from sandrl.config.words import EpisodeKind, Extraction, ToolSet
from sandrl.events import LogLevel
from sandrl.settings import RUNTIME_WORDS, ReportTo, RuntimeKind

PROBLEMS_HELP = (
    "A named set (`bundled`, `toy`, `tiny`, `mbpp`, …) or a dataset of the hub (owner/name), each with :SPLIT where one"
    " is meant, or a file."
)

MAP_HELP = (
    "Which fields of the rows are meant, where their format is not known: prompt=question,tests=info.asserts, or"
    " prompt=question,cases=test_cases,fn=function_name for calls; FIELD:=VALUE is the same in all rows."
)

LANGUAGE_HELP = (
    "The language of completions, for problems that are programs and name none: `cpp` for sets like CodeContests."
)

Problems: TypeAlias = Annotated[
    str,
    Option(PROBLEMS_HELP, PROBLEMS, metavar="SET|FILE", values="problem_sets"),
]
SkipBadRows: TypeAlias = Annotated[bool, Option("Skip and count rows that cannot be used.", PROBLEMS)]
NumProblems: TypeAlias = Annotated[Count | None, Option("Only the first N problems.", PROBLEMS, metavar="N")]
Timeout: TypeAlias = Annotated[
    Seconds | None,
    Option(
        "Time for one completion with its checks. By default 10 seconds, in which cases and calls that pass do not"
        " count, up to 120 seconds in all.",
        SCORING,
        metavar="SECONDS",
        flag="--timeout",
    ),
]
RunsDir: TypeAlias = Annotated[Path | None, Option("Where the run directory is made.", OUTPUT, metavar="DIR")]
ShowTests: TypeAlias = Annotated[
    Tries, Option("Checks a prompt shows.", PROBLEMS, metavar="N")
]  # fmt: skip
Tools: TypeAlias = Annotated[
    ToolSet, Option("With --rollout tools: execute and submit code, or shell and files, too.", EPISODES)
]
MaxTokens: TypeAlias = Annotated[Count, Option("The longest answer.", GENERATION, metavar="N")]
MaxToolCalls: TypeAlias = Annotated[Count, Option("Calls in an episode with tools.", EPISODES, metavar="N")]
ReportTraining: TypeAlias = Annotated[
    ReportTo,
    Option("Metrics to W&B, too; `auto`: to an active W&B run, or to one of its own where a key is set.", OUTPUT),
]
FailUnder: TypeAlias = Annotated[
    Share | None, Option("Exit 1 if the pass rate is lower.", OUTPUT, metavar="RATE")
]  # fmt: skip


class MappingPart(Config):
    """What rows of problems do not say themselves; kept with a run, as its scoring options are."""

    fields: Annotated[
        tuple[str, ...],
        Option(
            MAP_HELP,
            PROBLEMS,
            metavar="FIELD=PATH,…",
            flag="--map",
            separator=",",
        ),
    ] = ()
    language: Annotated[str | None, Option(LANGUAGE_HELP, PROBLEMS, metavar="NAME")] = None


class ScoringPart(Config):
    """How a completion is judged and rewarded.

    What is here is an option of every command that scores, is kept with its run, and is what `runs regrade` judges
    with.
    """

    extract: Annotated[Extraction, Option("Where in a completion its code is.", SCORING)] = Extraction.AUTO
    timeout_seconds: Timeout = None
    check_timeout_seconds: Annotated[
        Seconds | None,
        Option("Time for each check; none of its own by default.", SCORING, metavar="SECONDS", flag="--check-timeout"),
    ] = None
    compile_timeout_seconds: Annotated[
        Seconds,
        Option(
            "Time for a compilation, in languages that have one; not part of the others.",
            SCORING,
            metavar="SECONDS",
            flag="--compile-timeout",
        ),
    ] = 30.0
    max_output_bytes: Annotated[
        Count, Option("How much of each of stdout and stderr is kept.", SCORING, metavar="BYTES")
    ] = 1 << 20
    max_file_bytes: Annotated[
        Count, Option("Size of the largest file a completion may write, its output included.", SCORING, metavar="BYTES")
    ] = 64 << 20
    max_cases: Annotated[
        Count | None,
        Option("Of problems with more cases or calls, judge with N of them: always the same.", SCORING, metavar="N"),
    ] = None
    all_checks: Annotated[
        bool,
        Option("With a binary reward, too, run cases and calls after the first that fails.", SCORING),
    ] = False
    prelude: Annotated[
        str | None,
        Option(
            "Python code, or `standard`, that runs before completions of problems without a prelude of their own.",
            SCORING,
            metavar="CODE",
        ),
    ] = None
    require_isolated: Annotated[
        bool, Option("No reward where the checks cannot be kept out of the completion's process.", SCORING)
    ] = False
    caching: Annotated[
        bool, Option("Judge identical completions once.", SCORING, flag="--caching/--no-cache")
    ] = True  # fmt: skip
    retries: Annotated[Tries, Option("Further tries when a sandbox fails.", SCORING, metavar="N")] = 2
    second_opinion: Annotated[
        Share,
        Option(
            "Judge this share of failed isolated verdicts again in one process; report those that pass there.",
            SCORING,
            metavar="RATE",
        ),
    ] = 0.0
    reward: Annotated[
        str,
        Option(
            "`binary`: all checks or nothing. `fraction`: the share that passed. Or a function of your own of the"
            " verdict and the completion.",
            REWARD,
            metavar="NAME|MODULE:FUNCTION",
            values="reward_policies",
        ),
    ] = "binary"
    format_reward: Annotated[
        Weight,
        Option("Component for a completion that is one `<answer>…</answer>`.", REWARD, metavar="WEIGHT"),
    ] = 0.0
    length_penalty: Annotated[
        Weight, Option("Component against long completions.", REWARD, metavar="WEIGHT")
    ] = 0.0  # fmt: skip
    timeout_penalty: Annotated[
        Weight, Option("Component against timeouts.", REWARD, metavar="WEIGHT")
    ] = 0.0  # fmt: skip


class CachePart(ScoringPart):
    """Where verdicts are kept from one run to the next."""

    cache: Annotated[
        Path | None, Option("Keep verdicts there, and use those of earlier runs.", SCORING, metavar="DIR")
    ] = None  # fmt: skip

    @model_validator(mode="after")
    def _caches_or_not(self) -> Self:
        if self.cache is not None and not self.caching:
            raise ValueError("cache: without caching there is nothing to keep there")
        return self


class SamplingPart(Config):
    """How a model answers."""

    temperature: Annotated[
        float,
        Field(ge=0, le=100, allow_inf_nan=False),
        Option("Of sampling; 0 takes the likeliest token always.", GENERATION, metavar="T"),
    ] = 1.0
    max_tokens: MaxTokens = 2048


class EndpointPart(Config):
    """Where a model is asked, and how patiently. Its key is in the environment only."""

    base_url: Annotated[
        str | None,
        Option("An OpenAI-compatible endpoint; its key, if any, is in OPENAI_API_KEY.", MODEL, metavar="URL"),
    ] = None
    request_timeout_seconds: Annotated[
        Seconds, Option("Time for one answer of an endpoint.", MODEL, metavar="SECONDS", flag="--request-timeout")
    ] = 120.0
    request_retries: Annotated[
        Tries, Option("Further tries when the endpoint does not answer.", MODEL, metavar="N")
    ] = 4  # fmt: skip

    @model_validator(mode="after")
    def _is_an_address_without_a_secret(self) -> Self:
        if self.base_url is not None:
            check_model_address(self.base_url)
        return self


class EpisodePart(Config):
    """How an episode goes."""

    rollout: Annotated[
        EpisodeKind, Option("Code in answers, with errors fed back; or calls of tools.", EPISODES)
    ] = EpisodeKind.ATTEMPTS  # fmt: skip
    max_attempts: Annotated[Count, Option("Answers in an episode of attempts.", EPISODES, metavar="N")] = 3
    tools: Tools = ToolSet.CODE
    max_tool_calls: MaxToolCalls = 20
    show_tests: ShowTests = 1


class SandboxesPart(Config):
    """Where code runs."""

    concurrency: Annotated[
        Count | None,
        Option("How many completions, or episodes, at once.", SANDBOXES, metavar="N", short="-c"),
    ] = None
    max_sandboxes: Annotated[
        Count | None,
        Option("Never hold more sandboxes, those being created or stopped included.", SANDBOXES, metavar="N"),
    ] = None
    fresh_sandboxes: Annotated[
        bool, Option("Judge each completion in a fresh sandbox, not in a cell of one that judges many.", SANDBOXES)
    ] = False
    reuse_sandboxes: Annotated[
        bool,
        Option("Where cells are not possible, judge completions in one sandbox as different users.", SANDBOXES),
    ] = False
    runtime: Annotated[
        RuntimeName,
        Option(
            "What runs the sandboxes; `ray` is a Ray cluster, at an address or at RAY_ADDRESS.",
            SANDBOXES,
            metavar=RUNTIME_WORDS,
            values="runtimes",
        ),
    ] = RuntimeKind.AUTO.value
    image: Annotated[str | None, Option("Container image of the sandboxes.", SANDBOXES)] = None
    packages: Annotated[
        tuple[str, ...],
        Option("Installed packages the code may import (local runtime).", SANDBOXES, metavar="NAME,…", separator=","),
    ] = ()
    sandbox_memory_bytes: Annotated[
        Count | None,
        Option(
            "Memory of each sandbox; locally 512 MiB by default.", SANDBOXES, metavar="BYTES", flag="--sandbox-memory"
        ),
    ] = None
    tags: Annotated[
        tuple[str, ...], Option("Tag of every sandbox; repeatable.", SANDBOXES, flag="--tag", short="-t")
    ] = ()  # fmt: skip
    budget: Annotated[
        BudgetText | None,
        Option(
            "Stop before sandboxes exceed this time, summed over them, or this cost: 2h, 90m, $5. What was done is"
            " kept.",
            SANDBOXES,
            metavar="TIME|MONEY",
        ),
    ] = None


class RunPart(Config):
    """What a run leaves behind."""

    runs_dir: RunsDir = None
    run_name: Annotated[str | None, Option("Name of the run directory.", OUTPUT)] = None
    log_level: Annotated[LogLevel, Option("How much the run's log file has.", OUTPUT)] = LogLevel.INFO
    report_to: Annotated[
        ReportTo, Option("Metrics to W&B, too; `auto`: to an active W&B run.", OUTPUT)
    ] = ReportTo.AUTO  # fmt: skip
    notify: Annotated[
        str | None,
        Option(
            "Run this in a shell when the run ends, however it ends; SANDRL_OUTCOME and others in its environment say"
            " how. Keep secrets out of it: it is kept with the run.",
            OUTPUT,
            metavar="COMMAND",
        ),
    ] = None


class OutputPart(RunPart):
    """What a run of scored completions leaves behind, besides."""

    out: Annotated[
        Path | None, Option("Append each result to a JSONL file as it arrives.", OUTPUT, metavar="FILE")
    ] = None  # fmt: skip
    fail_under: FailUnder = None
