"""The parts that configurations are made of, each with the fields of one subject.

A command's model inherits from its parts. Pydantic collects the fields of the last base first, so the last base is the
part that the help should show first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self, TypeAlias

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from sandrl.addresses import check_model_address
from sandrl.config.fields import (
    BYTES,
    EPISODES,
    GENERATION,
    MODEL,
    OUTPUT,
    PROBLEMS,
    REWARD,
    SANDBOXES,
    SCORING,
    SECONDS,
    TRAINING,
    Option,
)
from sandrl.config.model import (
    BudgetText,
    Bytes,
    Config,
    Count,
    HashSeed,
    RewardName,
    RuntimeName,
    Seconds,
    Share,
    Tries,
    Weight,
)
from sandrl.config.words import EpisodeKind, Extraction, ToolSet
from sandrl.events import LogLevel
from sandrl.settings import RUNTIME_WORDS, ReportTo, RuntimeKind

PROBLEMS_HELP = (
    "The problems: a named set (`bundled`, `toy`, `tiny`, `mbpp`, …), a Hugging Face dataset (OWNER/NAME), or a file."
    " Append :SPLIT to a set or dataset to select a split."
)

MAP_HELP = (
    "Map fields of the rows whose format is not recognised: `prompt=question,tests=info.asserts`; calls of a"
    " function need `cases=…,fn=…`. `FIELD:=VALUE` sets one value for all rows."
)

BASE_URL_HELP = "Address of an OpenAI-compatible endpoint; its key, if any, is read from OPENAI_API_KEY."

RUNTIME_HELP = (
    "The runtime of the sandboxes. `auto`: `remote` if its credentials are set, else `local`. `ray`: a Ray cluster, at"
    " ADDRESS or RAY_ADDRESS."
)

LANGUAGE_HELP = (
    "Programming language of the completions, for problems that are programs and do not name one; for example `cpp` for"
    " CodeContests."
)

EXTRACT_HELP = "Where in a completion to find its code."

ROLLOUT_HELP = "Kind of episode: `attempts`, code in answers with errors as feedback; `tools`, calls of tools."

Problems: TypeAlias = Annotated[
    str,
    Option(PROBLEMS_HELP, PROBLEMS, metavar="SET|FILE", values="problem_sets"),
]
SkipBadRows: TypeAlias = Annotated[bool, Option("Skip and count unusable rows instead of stopping.", PROBLEMS)]
NumProblems: TypeAlias = Annotated[
    Count | None, Option("Use only the first N problems; default: all.", PROBLEMS, metavar="N")
]
Timeout: TypeAlias = Annotated[
    Seconds | None,
    Option(
        "Time limit for one completion and its checks. Default: 10 seconds, not counting cases and calls that pass, up"
        " to 120 seconds in total.",
        SCORING,
        metavar=SECONDS,
        flag="--timeout",
    ),
]
RunsDir: TypeAlias = Annotated[
    Path | None, Option("Create the run directory here; default: SANDRL_RUNS_DIR, else ./runs.", OUTPUT, metavar="DIR")
]
ShowTests: TypeAlias = Annotated[Tries, Option("Number of checks that a prompt shows.", PROBLEMS, metavar="N")]
Tools: TypeAlias = Annotated[
    ToolSet,
    Option("Tools of `--rollout tools`: `code` to execute and submit code, `all` also for shell and files.", EPISODES),
]
Samples: TypeAlias = Annotated[
    int,
    Field(ge=2, lt=2**63),
    Option("Completions (or episodes) per problem in a step: the size of a group.", TRAINING, metavar="N"),
]
MaxTokens: TypeAlias = Annotated[Count, Option("Maximum length of a completion, in tokens.", GENERATION, metavar="N")]
MaxToolCalls: TypeAlias = Annotated[Count, Option("Maximum number of tool calls in an episode.", EPISODES, metavar="N")]
ReportTraining: TypeAlias = Annotated[
    ReportTo,
    Option("Also send metrics to W&B. `auto`: to the active W&B run, or to a new one if a W&B key is set.", OUTPUT),
]
FailUnder: TypeAlias = Annotated[
    Share | None, Option("Exit with 1 if the pass rate is lower than this.", OUTPUT, metavar="RATE")
]


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

    extract: Annotated[Extraction, Option(EXTRACT_HELP, SCORING)] = Extraction.AUTO
    timeout_seconds: Timeout = None
    check_timeout_seconds: Annotated[
        Seconds | None,
        Option(
            "Time limit for each check; default: only the limit of --timeout.",
            SCORING,
            metavar=SECONDS,
            flag="--check-timeout",
        ),
    ] = None
    compile_timeout_seconds: Annotated[
        Seconds,
        Option(
            "Time limit for compiling, in compiled languages; not part of --timeout.",
            SCORING,
            metavar=SECONDS,
            flag="--compile-timeout",
        ),
    ] = 30.0
    max_output_bytes: Annotated[
        Bytes, Option("Keep at most this much of stdout, and of stderr.", SCORING, metavar=BYTES)
    ] = 1 << 20  # fmt: skip
    max_file_bytes: Annotated[
        Bytes,
        Option("Maximum size of a file that a completion writes, including its output.", SCORING, metavar=BYTES),
    ] = 64 << 20
    max_cases: Annotated[
        Count | None,
        Option(
            "Judge with at most N cases or calls of a problem; always the same ones. Default: all.",
            SCORING,
            metavar="N",
        ),
    ] = None
    all_checks: Annotated[
        bool,
        Option("Run all cases and calls, also after a failed one and with a binary reward.", SCORING),
    ] = False
    prelude: Annotated[
        str | None,
        Option(
            "Python code that runs before the completions of problems that have no prelude; `standard` for common"
            " imports.",
            SCORING,
            metavar="CODE",
        ),
    ] = None
    require_isolated: Annotated[
        bool, Option("Give no reward if the checks must run in the completion's process.", SCORING)
    ] = False  # fmt: skip
    caching: Annotated[
        bool, Option("Judge identical completions only once.", SCORING, flag="--caching/--no-cache")
    ] = True  # fmt: skip
    retries: Annotated[Tries, Option("Number of retries after a sandbox fails.", SCORING, metavar="N")] = 2
    hash_seed: Annotated[
        HashSeed,
        Option(
            "Hash seed of Python, which determines the order of sets, for completions, references and checkers.",
            SCORING,
            metavar="N",
        ),
    ] = 0
    hash_seeds: Annotated[
        Annotated[int, Field(ge=1, lt=101)],
        Option(
            "Judge each completion under this number of hash seeds, from --hash-seed on, and report those whose verdict"
            " depends on the seed. The reward is that of the first seed.",
            SCORING,
            metavar="N",
        ),
    ] = 1
    second_opinion: Annotated[
        Share,
        Option(
            "Judge this share of the failed isolated verdicts again in one process, and report those that pass.",
            SCORING,
            metavar="RATE",
        ),
    ] = 0.0
    reward: Annotated[
        RewardName,
        Option(
            "Reward policy. `binary`: 1 if all checks pass, else 0. `fraction`: the share of checks that pass. Or your"
            " own function of the verdict and the completion, by its file or its module: `my.py:score`.",
            REWARD,
            metavar="NAME|FILE.py:FUNCTION",
            values="reward_policies",
        ),
    ] = "binary"
    format_reward: Annotated[
        Weight,
        Option("Weight of the component for completions that are one `<answer>…</answer>`.", REWARD, metavar="WEIGHT"),
    ] = 0.0
    length_penalty: Annotated[
        Weight, Option("Weight of the component against long completions.", REWARD, metavar="WEIGHT")
    ] = 0.0  # fmt: skip
    timeout_penalty: Annotated[
        Weight, Option("Weight of the component against timeouts.", REWARD, metavar="WEIGHT")
    ] = 0.0  # fmt: skip


class CachePart(ScoringPart):
    """Where verdicts are kept from one run to the next."""

    cache: Annotated[
        Path | None,
        Option("Store verdicts in this directory, and reuse verdicts of earlier runs.", SCORING, metavar="DIR"),
    ] = None

    @model_validator(mode="after")
    def _caches_or_not(self) -> Self:
        if self.cache is not None and not self.caching:
            raise ValueError("cache: has no effect without caching; leave one of them out")
        return self


def _text_of(given: object) -> object:
    # A text, or that of a file which is named with an `@` before it; `@@` stands for an `@` at the beginning.
    if not isinstance(given, str) or not given.startswith("@"):
        return given
    if given.startswith("@@"):
        return given
    path = Path(given[1:]).expanduser()
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text in UTF-8"
        raise ValueError(f"names the file {str(path)!r}, which cannot be read: {reason}") from error
    text = text.removesuffix("\n")
    return f"@{text}" if text.startswith("@") else text


def _json_of(given: object) -> object:
    # A table, or JSON text of one, or that of a file which is named with an `@` before it.
    if not isinstance(given, str):
        return given
    try:
        value = json.loads(str(_text_of(given)))
    except ValueError as error:
        raise ValueError(f"must be a JSON object or @FILE: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("must be a JSON object")
    return value


def _unescaped(given: object) -> object:
    # Texts in which a shell's user has written a line break or a tab as `\n` or `\t`.
    if not isinstance(given, list | tuple):
        return given
    return [each.replace("\\n", "\n").replace("\\t", "\t") if isinstance(each, str) else each for each in given]


TextOrFile: TypeAlias = Annotated[str, BeforeValidator(_text_of)]
"""A text, or `@FILE`, which becomes the text of the file."""

_OWN_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), "max_tokens"),
    **dict.fromkeys(("messages", "input", "prompt"), "prompt_template"),
    **{name: name for name in ("model", "temperature", "top_p", "top_k", "min_p", "stop", "seed")},
    "n": "samples",
}
"""Fields of a request that have options of their own."""


class QuestionPart(Config):
    """What a model is asked, and how it may answer."""

    system_prompt: Annotated[
        TextOrFile | None,
        Option(
            "System message; `none` for none.",
            GENERATION,
            metavar="TEXT|@FILE",
            default="a message that asks for the form of the answer",
        ),
    ] = None
    prompt_template: Annotated[
        TextOrFile | None,
        Option(
            "Text around each problem, in which `{prompt}` stands for the problem with its shown checks; also `{task}`,"
            " `{tests}`, `{entry_point}`, `{starter_code}`, `{language}` and `{task_id}`.",
            GENERATION,
            metavar="TEXT|@FILE",
        ),
    ] = None
    few_shot: Annotated[
        Tries,
        Option("Begin each conversation with N examples, problems with their solutions.", GENERATION, metavar="N"),
    ] = 0
    few_shot_from: Annotated[
        str | None,
        Option(
            "Source of the examples: a problem set with reference solutions, or a JSONL file with `prompt` and"
            " `completion`.",
            GENERATION,
            metavar="SET|FILE",
            values="problem_sets",
            default="other problems of --problems",
        ),
    ] = None
    few_shot_seed: Annotated[
        int, Field(ge=0, lt=2**32), Option("Random seed that chooses the examples.", GENERATION, metavar="N")
    ] = 0
    top_p: Annotated[
        Annotated[float, Field(gt=0, le=1)] | None,
        Option("Sample from the most likely tokens with this total probability.", GENERATION, metavar="P"),
    ] = None
    top_k: Annotated[Count | None, Option("Sample from the K most likely tokens.", GENERATION, metavar="K")] = None
    min_p: Annotated[
        Share | None,
        Option("Sample from tokens with at least P times the highest probability.", GENERATION, metavar="P"),
    ] = None
    stop: Annotated[
        tuple[str, ...],
        BeforeValidator(_unescaped),
        Option("End a completion before this text; repeatable. `\\n` is a line break.", GENERATION, metavar="TEXT"),
    ] = ()
    extra_body: Annotated[
        dict[str, JsonValue],
        BeforeValidator(_json_of),
        Option(
            "Further fields of each request to an endpoint, such as"
            ' `{"chat_template_kwargs": {"enable_thinking": false}}`.',
            GENERATION,
            metavar="JSON|@FILE",
        ),
    ] = Field(default_factory=dict)

    max_attempts: Annotated[
        Count,
        Option(
            "Maximum number of answers: after a failed answer the model receives feedback and answers again.",
            EPISODES,
            metavar="N",
        ),
    ] = 1

    @model_validator(mode="after")
    def _asks_the_problem(self) -> Self:
        template = self.prompt_template
        if template is not None and not re.search(r"\{\s*(?:prompt|task)\s*\}", template):
            raise ValueError("prompt_template: has no {prompt}, so the model would not be shown the problem")
        if not self.few_shot and self.few_shot_from is not None:
            raise ValueError("few_shot_from: has no effect without few_shot; give a number of examples")
        for name in self.extra_body:
            if name in _OWN_FIELDS:
                raise ValueError(f"extra_body: {name} has an option of its own: `{_OWN_FIELDS[name]}`")
            if name in ("stream", "tools", "tool_choice", "logprobs"):
                raise ValueError(f"extra_body: {name} is decided by the command; leave it out")
        return self


class SamplingPart(QuestionPart):
    """How a model answers."""

    temperature: Annotated[
        float,
        Field(ge=0, le=100, allow_inf_nan=False),
        Option("Sampling temperature; 0 for greedy decoding.", GENERATION, metavar="T"),
    ] = 1.0
    max_tokens: Annotated[
        Count | None,
        Option(
            "Maximum length of a completion, in tokens.",
            GENERATION,
            metavar="N",
            default="the model's own limit; an endpoint receives no limit",
        ),
    ] = None


class EndpointPart(Config):
    """Where a model is asked, and how patiently. Its key is in the environment only."""

    base_url: Annotated[
        str | None,
        Option(BASE_URL_HELP, MODEL, metavar="URL"),
    ] = None
    request_timeout_seconds: Annotated[
        Seconds,
        Option("Time limit for one request to the endpoint.", MODEL, metavar=SECONDS, flag="--request-timeout"),
    ] = 120.0
    request_retries: Annotated[
        Tries, Option("Number of retries if the endpoint does not answer.", MODEL, metavar="N")
    ] = 4  # fmt: skip

    @model_validator(mode="after")
    def _is_an_address_without_a_secret(self) -> Self:
        if self.base_url is not None:
            check_model_address(self.base_url)
        return self


class EpisodePart(Config):
    """How an episode goes."""

    rollout: Annotated[EpisodeKind, Option(ROLLOUT_HELP, EPISODES)] = EpisodeKind.ATTEMPTS
    tools: Tools = ToolSet.CODE
    max_tool_calls: MaxToolCalls = 20
    show_tests: ShowTests = 1


class SandboxesPart(Config):
    """Where code runs."""

    concurrency: Annotated[
        Count | None,
        Option(
            "Number of completions (or episodes) at the same time; default: chosen for the runtime.",
            SANDBOXES,
            metavar="N",
            short="-c",
        ),
    ] = None
    max_sandboxes: Annotated[
        Count | None,
        Option(
            "Maximum number of sandboxes at the same time, including sandboxes being created or stopped.",
            SANDBOXES,
            metavar="N",
        ),
    ] = None
    fresh_sandboxes: Annotated[
        bool,
        Option("Judge each completion in a fresh sandbox, not in a cell of a worker sandbox.", SANDBOXES),
    ] = False
    runtime: Annotated[
        RuntimeName,
        Option(
            RUNTIME_HELP,
            SANDBOXES,
            metavar=RUNTIME_WORDS,
            values="runtimes",
        ),
    ] = RuntimeKind.AUTO.value
    image: Annotated[str | None, Option("Container image of the sandboxes.", SANDBOXES, metavar="IMAGE")] = None
    packages: Annotated[
        tuple[str, ...],
        Option(
            "Python packages that the code may import, such as numpy or pandas==2.2; they are installed once.",
            SANDBOXES,
            metavar="NAME,…",
            separator=",",
        ),
    ] = ()
    sandbox_memory_bytes: Annotated[
        Bytes | None,
        Option(
            "Memory of each sandbox; default on the local runtime: 512 MiB.",
            SANDBOXES,
            metavar=BYTES,
            flag="--sandbox-memory",
        ),
    ] = None
    tags: Annotated[
        tuple[str, ...],
        Option("Add this tag to every sandbox; repeatable.", SANDBOXES, metavar="TAG", flag="--tag", short="-t"),
    ] = ()
    budget: Annotated[
        BudgetText | None,
        Option(
            "Stop before the sandboxes exceed this total time or cost: 2h, 90m, $5. Finished work is kept.",
            SANDBOXES,
            metavar="TIME|MONEY",
        ),
    ] = None


class RunPart(Config):
    """What a run leaves behind."""

    runs_dir: RunsDir = None
    run_name: Annotated[str | None, Option("Name of the run directory.", OUTPUT, metavar="NAME")] = None
    log_level: Annotated[LogLevel, Option("Level of the run's log file.", OUTPUT)] = LogLevel.INFO
    report_to: Annotated[
        ReportTo, Option("Also send metrics to W&B. `auto`: to the active W&B run, if there is one.", OUTPUT)
    ] = ReportTo.AUTO  # fmt: skip
    notify: Annotated[
        str | None,
        Option(
            "Shell command to run when the run ends, with any outcome. SANDRL_OUTCOME and other variables describe the"
            " outcome. The command is saved with the run, so do not put secrets in it.",
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


def check_groups(batch_size: int, samples: int) -> None:
    """Makes sure that the completions of a step are whole groups.

    Raises:
        ValueError: If they are not; its message begins with the field.
    """
    if batch_size % samples:
        raise ValueError(
            f"batch_size: {batch_size} is not a multiple of samples, which is {samples}; every group must be complete"
        )
