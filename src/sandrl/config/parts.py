"""The parts that configurations are made of, each with the fields of one subject.

A command's model inherits from its parts. Pydantic collects the fields of the last base first, so the last base is the
part that the help should show first.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, model_validator

from sandrl.addresses import check_model_address
from sandrl.config.difficulty import Range
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
    option,
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
    Seed,
    Share,
    Trackers,
    Tries,
    Weight,
)
from sandrl.config.words import (
    OWN_TEMPLATE,
    PLAIN_TEMPLATE,
    Curriculum,
    EpisodeKind,
    Extraction,
    ToolSet,
    VerifierPlace,
)
from sandrl.events import LogLevel
from sandrl.settings import RUNTIME_WORDS, NetworkMode, ReportTo, RuntimeKind

PROBLEMS_HELP = (
    "The problems: a named set (`bundled`, `toy`, `tiny`, `mbpp`, …), a Hugging Face dataset (OWNER/NAME), a file, or a"
    " directory of files or tasks. Append :SPLIT to a set or dataset to select a split."
)

MIXTURE_HELP = f"{PROBLEMS_HELP} Several of them, with weights: `mbpp=2,mine.jsonl=1`."

MAP_HELP = (
    "Map fields of the rows whose format is not recognised: `prompt=question,tests=info.asserts`; calls of a"
    " function need `cases=…,fn=…`. `FIELD:=VALUE` sets one value for all rows."
)

BASE_URL_HELP = "Address of an OpenAI-compatible endpoint; its key, if any, is read from OPENAI_API_KEY."

RUNTIME_HELP = (
    "The runtime of the sandboxes. `auto`: `remote` if its credentials are set, else `local`. `ray`: a Ray cluster, at"
    " ADDRESS or RAY_ADDRESS. `docker`, `podman`: containers. `kubernetes`: pods. NAME: a runtime that a package adds."
)

LANGUAGE_HELP = (
    "Programming language of the completions, for problems that are programs and do not name one; for example `cpp` for"
    " CodeContests."
)

EXTRACT_HELP = "Where in a completion to find its code."

ROLLOUT_HELP = "Kind of episode: `attempts`, code in answers with errors as feedback; `tools`, calls of tools."
TOOL_CALLS, TASK_TOOL_CALLS = 20, 100
"""The default number of tool calls in an episode, and in one on a task."""

Problems: TypeAlias = Annotated[
    str,
    Option(PROBLEMS_HELP, PROBLEMS, metavar="SET|FILE", values="problem_sets"),
]
Mixture: TypeAlias = Annotated[
    str,
    Option(MIXTURE_HELP, PROBLEMS, metavar="SET|FILE", values="problem_sets"),
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
    Option(
        "Tools of `--rollout tools`: `code` to execute and submit code, `all` also for shell and files. Tasks have"
        " their own.",
        EPISODES,
    ),
]
Samples: TypeAlias = Annotated[
    int,
    Field(ge=2, lt=2**63),
    Option("Completions (or episodes) per problem in a step: the size of a group.", TRAINING, metavar="N"),
]
DynamicSampling: TypeAlias = Annotated[
    Tries,
    Option(
        "Replace groups with equal rewards by groups of further problems, at most N times as many as a step has groups;"
        " 0: keep them.",
        TRAINING,
        metavar="N",
    ),
]
MaskTruncated: TypeAlias = Annotated[
    bool, Option("Take no gradient from completions that were cut off at the token limit.", TRAINING)
]
MaxTokens: TypeAlias = Annotated[Count, Option("Maximum length of a completion, in tokens.", GENERATION, metavar="N")]
TOOL_CALLS_HELP = "Maximum number of tool calls in an episode."
_REPORT_HELP = (
    "Also send metrics to trackers: auto, wandb, tensorboard, mlflow, trackio; `none` for no tracker. `auto`: to the"
    " active W&B run"
)
ReportTraining: TypeAlias = Annotated[
    Trackers,
    Option(
        f"{_REPORT_HELP}, or to a new one if a W&B key is set.",
        OUTPUT,
        metavar="NAME,…",
        separator=",",
        values="trackers",
        default="auto",
    ),
]
FailUnder: TypeAlias = Annotated[
    Share | None, Option("Exit with 1 if the pass rate is lower than this.", OUTPUT, metavar="RATE")
]


class MappingPart(Config):
    """What rows of problems do not say themselves; kept with a run, as its scoring options are."""

    fields: tuple[str, ...] = option((), MAP_HELP, PROBLEMS, metavar="FIELD=PATH,…", flag="--map", separator=",")
    language: str | None = option(None, LANGUAGE_HELP, PROBLEMS, metavar="NAME")


class LockPart(Config):
    """Which tasks a run may have."""

    lock: Path | None = option(
        None,
        "Refuse tasks and images other than those in this lock, such as the tasks.lock.json of a run.",
        PROBLEMS,
        metavar="FILE",
    )


class QualityPart(Config):
    """Which problems of its set a run has, by what was measured about them; kept with the run."""

    min_quality: Share | None = option(
        None,
        "Leave out the problems whose quality is lower than this, and those that were not measured (`sandrl problems"
        " validate`, `sandrl redteam`).",
        PROBLEMS,
        metavar="Q",
    )
    cards: str | None = option(
        None,
        "The measurements that --min-quality uses: those of a run, or in a file or directory. Default: the user's"
        " record of all measurements.",
        PROBLEMS,
        metavar="RUN|FILE|DIR",
        values="run_names",
    )

    @model_validator(mode="after")
    def _chooses_by_cards(self) -> Self:
        if self.cards is not None and self.min_quality is None:
            raise ValueError("cards: has no effect without min_quality; leave one of them out, or give both")
        return self


def _range_of(text: str) -> str:
    Range.of(text)
    return text


class SchedulePart(Config):
    """Which problems of its set a training takes, and in which order, by how often they are solved."""

    profile: str | None = option(
        None,
        "The pass rate of each problem, for --difficulty and --curriculum: that of an earlier run, or `this`: that of"
        " the training itself so far.",
        PROBLEMS,
        metavar="RUN|this",
        values="run_names",
    )
    difficulty: Annotated[str, AfterValidator(_range_of)] | None = option(
        None, "Train only on problems whose pass rate is in this range: `0.1..0.9`.", PROBLEMS, metavar="LOW..HIGH"
    )
    curriculum: Curriculum | None = option(None, "Order each pass through the problems by their pass rates.", PROBLEMS)
    deduplicate: bool = option(False, "Leave out training problems that are near duplicates of earlier ones.", PROBLEMS)

    @model_validator(mode="after")
    def _has_rates_with_a_purpose(self) -> Self:
        by_rates = [name for name in ("difficulty", "curriculum") if getattr(self, name) is not None]
        if by_rates and self.profile is None:
            raise ValueError(
                f"{by_rates[0]}: needs pass rates; give a run that has measured them as profile, or `this`"
            )
        if self.profile is not None and not by_rates:
            raise ValueError("profile: has no effect without difficulty or curriculum; leave it out, or give one")
        return self


class ScoringPart(Config):
    """How a completion is judged and rewarded.

    What is here is an option of every command that scores, is kept with its run, and is what `runs regrade` judges
    with.
    """

    extract: Extraction = option(Extraction.AUTO, EXTRACT_HELP, SCORING)
    timeout_seconds: Timeout = None
    check_timeout_seconds: Seconds | None = option(
        None,
        "Time limit for each check; default: only the limit of --timeout.",
        SCORING,
        metavar=SECONDS,
        flag="--check-timeout",
    )
    compile_timeout_seconds: Seconds = option(
        30.0,
        "Time limit for compiling, in compiled languages; not part of --timeout.",
        SCORING,
        metavar=SECONDS,
        flag="--compile-timeout",
    )
    max_output_bytes: Bytes = option(
        1 << 20, "Keep at most this much of stdout, and of stderr.", SCORING, metavar=BYTES
    )
    max_file_bytes: Bytes = option(
        64 << 20, "Maximum size of a file that a completion writes, including its output.", SCORING, metavar=BYTES
    )
    max_cases: Count | None = option(
        None,
        "Judge with at most N cases or calls of a problem; always the same ones. Default: all.",
        SCORING,
        metavar="N",
    )
    all_checks: bool = option(
        False, "Run all cases and calls, also after a failed one and with a binary reward.", SCORING
    )
    prelude: str | None = option(
        None,
        "Python code that runs before the completions of problems that have no prelude; `standard` for common imports.",
        SCORING,
        metavar="CODE",
    )
    require_isolated: bool = option(
        False, "Give no reward if the checks must run in the completion's process.", SCORING
    )
    caching: bool = option(True, "Judge identical completions only once.", SCORING, flag="--caching/--no-cache")
    retries: Tries = option(2, "Number of retries after a sandbox fails.", SCORING, metavar="N")
    hash_seed: HashSeed = option(
        0,
        "Hash seed of Python, which determines the order of sets, for completions, references and checkers.",
        SCORING,
        metavar="N",
    )
    hash_seeds: Annotated[int, Field(ge=1, lt=101)] = option(
        1,
        "Judge each completion under this number of hash seeds, from --hash-seed on, and report those whose verdict"
        " depends on the seed. The reward is that of the first seed.",
        SCORING,
        metavar="N",
    )
    verifier: VerifierPlace = option(
        VerifierPlace.TASK,
        "Where verifiers of tasks run: as the task says; in a fresh sandbox, from the state that the agent left"
        " (`separate`); or in an untouched one, with nothing but the working directory and the paths that the verifier"
        " mentions (`artifacts`).",
        SCORING,
    )
    pass_env: tuple[str, ...] = option(
        (),
        "Let tasks use this variable of the environment where they name it (`${NAME}`); repeatable.",
        SCORING,
        metavar="NAME",
    )
    second_opinion: Share = option(
        0.0,
        "Judge this share of the failed isolated verdicts again in one process, and report those that pass.",
        SCORING,
        metavar="RATE",
    )
    reward: RewardName = option(
        "binary",
        "Reward policy. `binary`: 1 if all checks pass, else 0. `fraction`: the share of checks that pass. Or your"
        " own function of the verdict and the completion, by its file or its module: `my.py:score`.",
        REWARD,
        metavar="NAME|FILE.py:FUNCTION",
        values="reward_policies",
    )
    format_reward: Weight = option(
        0.0, "Weight of the component for completions that are one `<answer>…</answer>`.", REWARD, metavar="WEIGHT"
    )
    length_penalty: Weight = option(0.0, "Weight of the component against long completions.", REWARD, metavar="WEIGHT")
    timeout_penalty: Weight = option(0.0, "Weight of the component against timeouts.", REWARD, metavar="WEIGHT")

    @property
    def verifier_place(self) -> VerifierPlace:
        """Where shared verifiers run at last."""
        is_apart = self.require_isolated and self.verifier is VerifierPlace.TASK
        return VerifierPlace.SEPARATE if is_apart else self.verifier


MOST_RANKED = 64
"""The most answers that a model ranks in one question."""


class JudgePart(Config):
    """A model that grades answers by a rubric, as a component of the reward. Its key is in the environment only."""

    judge_base_url: str | None = option(
        None,
        "Have answers graded by a model at this OpenAI-compatible address; the grade is a component of the reward."
        " If it fails, the completion has no reward. Its key is read from OPENAI_API_KEY.",
        REWARD,
        metavar="URL",
    )
    judge_model: str | None = option(
        None, "Name of the model that grades; default: the only one.", REWARD, metavar="NAME"
    )
    judge_weight: Weight = option(1.0, "Weight of the grade, which is from 0 to 1.", REWARD, metavar="WEIGHT")
    judge_requests: Count | None = option(
        None, "Ask the model that grades at most N times; later completions have no reward.", REWARD, metavar="N"
    )
    judge_labels: Path | None = option(
        None,
        "First grade the answers of this file (`prompt`, `completion`, `score`), and report how far the grades agree.",
        REWARD,
        metavar="FILE",
    )
    rubric: Path | None = option(
        None, "Text file that says what earns a grade; default: a general rubric.", REWARD, metavar="FILE"
    )

    @model_validator(mode="after")
    def _has_a_model_that_grades(self) -> Self:
        if self.judge_base_url is not None:
            check_model_address(self.judge_base_url, "judge_base_url")
            return self
        fields = type(self).model_fields
        names = [name for name in sorted(fields) if name in JudgePart.model_fields or name == "judge_ranking"]
        if used := [name for name in names if getattr(self, name) != fields[name].default]:
            raise ValueError(f"{used[0]} has an effect with judge_base_url only")
        return self


class GroupJudgePart(JudgePart):
    """The same, where the answers to a problem in a step are a group."""

    judge_ranking: bool = option(
        False,
        "Have the model rank the answers of each group with one another, instead of grading each answer alone.",
        REWARD,
    )

    @model_validator(mode="after")
    def _has_groups_to_rank(self) -> Self:
        size = getattr(self, "samples", 0)
        if self.judge_ranking and not 2 <= size <= MOST_RANKED:
            raise ValueError(f"judge_ranking: ranks from 2 to {MOST_RANKED} answers of a group, and samples is {size}")
        return self


class CachePart(ScoringPart):
    """Where verdicts are kept from one run to the next."""

    cache: Path | None = option(
        None,
        "Store verdicts and grades in this directory, and reuse those of earlier runs.",
        SCORING,
        metavar="DIR",
    )

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


def _template_of(given: str) -> str:
    # The absolute path of a template, or the word for one: a run may be resumed elsewhere.
    return given if given in (OWN_TEMPLATE, PLAIN_TEMPLATE) else os.path.abspath(os.path.expanduser(given))


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

    system_prompt: TextOrFile | None = option(
        None,
        "System message; `none` for none.",
        GENERATION,
        metavar="TEXT|@FILE",
        default="a message that asks for the form of the answer",
    )
    prompt_template: TextOrFile | None = option(
        None,
        "Text around each problem, in which `{prompt}` stands for the problem with its shown checks; also `{task}`,"
        " `{tests}`, `{entry_point}`, `{starter_code}`, `{language}` and `{task_id}`.",
        GENERATION,
        metavar="TEXT|@FILE",
    )
    chat_template: Annotated[str, AfterValidator(_template_of)] | None = option(
        None,
        "Template that makes a text of a conversation: the model's `own`, `plain` for the messages alone, or a Jinja"
        " file.",
        GENERATION,
        metavar="own|plain|FILE",
        default="the model's own; plain if it has none",
    )
    few_shot: Tries = option(
        0, "Begin each conversation with N examples, problems with their solutions.", GENERATION, metavar="N"
    )
    few_shot_from: str | None = option(
        None,
        "Source of the examples: a problem set with reference solutions, or a JSONL file with `prompt` and"
        " `completion`.",
        GENERATION,
        metavar="SET|FILE",
        values="problem_sets",
        default="other problems of --problems",
    )
    few_shot_seed: Seed = option(0, "Random seed that chooses the examples.", GENERATION, metavar="N")
    top_p: Annotated[float, Field(gt=0, le=1)] | None = option(
        None, "Sample from the most likely tokens with this total probability.", GENERATION, metavar="P"
    )
    top_k: Count | None = option(None, "Sample from the K most likely tokens.", GENERATION, metavar="K")
    min_p: Share | None = option(
        None, "Sample from tokens with at least P times the highest probability.", GENERATION, metavar="P"
    )
    stop: Annotated[tuple[str, ...], BeforeValidator(_unescaped)] = option(
        (), "End a completion before this text; repeatable. `\\n` is a line break.", GENERATION, metavar="TEXT"
    )
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

    max_attempts: Count = option(
        1,
        "Maximum number of answers: after a failed answer the model receives feedback and answers again.",
        EPISODES,
        metavar="N",
    )

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

    temperature: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = option(
        1.0, "Sampling temperature; 0 for greedy decoding.", GENERATION, metavar="T"
    )
    max_tokens: Count | None = option(
        None,
        "Maximum length of a completion, in tokens.",
        GENERATION,
        metavar="N",
        default="the model's own limit; an endpoint receives no limit",
    )


class EndpointPart(Config):
    """Where a model is asked, and how patiently. Its key is in the environment only."""

    base_url: str | None = option(None, BASE_URL_HELP, MODEL, metavar="URL")
    request_timeout_seconds: Seconds = option(
        120.0, "Time limit for one request to the endpoint.", MODEL, metavar=SECONDS, flag="--request-timeout"
    )
    request_retries: Tries = option(4, "Number of retries if the endpoint does not answer.", MODEL, metavar="N")

    @model_validator(mode="after")
    def _is_an_address_without_a_secret(self) -> Self:
        if self.base_url is not None:
            check_model_address(self.base_url)
        return self


class EpisodePart(Config):
    """How an episode goes."""

    rollout: EpisodeKind | None = option(None, ROLLOUT_HELP, EPISODES, default="tools for tasks, else attempts")
    tools: Tools = ToolSet.CODE
    max_tool_calls: Count | None = option(
        None, TOOL_CALLS_HELP, EPISODES, metavar="N", default=f"{TASK_TOOL_CALLS} for tasks, else {TOOL_CALLS}"
    )
    show_tests: ShowTests = 1
    agent: str | None = option(
        None,
        "Who works on tasks instead of the model with tools: a known agent, a command in the machine, or a TOML file"
        " with a recipe; it asks the model through a recording proxy.",
        EPISODES,
        metavar="NAME|COMMAND",
    )

    @model_validator(mode="after")
    def _agent_has_its_own_loop(self) -> Self:
        if self.agent is not None:
            if self.rollout is EpisodeKind.ATTEMPTS:
                raise ValueError(
                    "rollout: attempts are answers of the model itself, and not of an `agent`; leave it out"
                )
            if self.max_tool_calls is not None:
                raise ValueError("max_tool_calls: has no effect with `agent`, which has tools of its own; leave it out")
        return self


class SandboxesPart(Config):
    """Where code runs."""

    concurrency: Count | None = option(
        None,
        "Number of completions (or episodes) at the same time; default: chosen for the runtime.",
        SANDBOXES,
        metavar="N",
        short="-c",
    )
    max_sandboxes: Count | None = option(
        None,
        "Maximum number of sandboxes at the same time, including sandboxes being created or stopped.",
        SANDBOXES,
        metavar="N",
    )
    fresh_sandboxes: bool = option(
        False, "Judge each completion in a fresh sandbox, not in a cell of a worker sandbox.", SANDBOXES
    )
    fresh_networks: bool = option(
        False,
        "Create a network namespace for each cell, also where no cell before it has used the last one.",
        SANDBOXES,
    )
    runtime: RuntimeName = option(
        RuntimeKind.AUTO.value, RUNTIME_HELP, SANDBOXES, metavar=RUNTIME_WORDS, values="runtimes"
    )
    image: str | None = option(
        None,
        "Container image of the sandboxes: NAME:TAG; locally also host:3.X, dockerfile:DIR, oci:DIR,"
        " docker-archive:FILE, rootfs:FILE.",
        SANDBOXES,
        metavar="IMAGE",
    )
    network: NetworkMode | None = option(
        None,
        "The network of the code: nothing, hosts that are named, or the public Internet. On this machine the default is"
        " nothing. With a network, each completion has a sandbox of its own.",
        SANDBOXES,
    )
    allow_hosts: tuple[str, ...] = option(
        (),
        "Host of the Internet that the code may reach: NAME (port 443), NAME:PORT, `*.NAME`, an address; repeatable.",
        SANDBOXES,
        metavar="HOST",
        flag="--allow-host",
    )
    private_hosts: tuple[str, ...] = option(
        (),
        "Host that the code may reach although it belongs to this machine or its networks, such as a package mirror;"
        " repeatable.",
        SANDBOXES,
        metavar="HOST",
        flag="--private-host",
    )
    packages: tuple[str, ...] = option(
        (),
        "Python packages that the code may import, such as numpy or pandas==2.2; they are installed once.",
        SANDBOXES,
        metavar="NAME,…",
        separator=",",
    )
    sandbox_memory_bytes: Bytes | None = option(
        None,
        "Memory of each sandbox; default on the local runtime: 512 MiB.",
        SANDBOXES,
        metavar=BYTES,
        flag="--sandbox-memory",
    )
    tags: tuple[str, ...] = option(
        (), "Add this tag to every sandbox; repeatable.", SANDBOXES, metavar="TAG", flag="--tag", short="-t"
    )
    budget: BudgetText | None = option(
        None,
        "Stop before the sandboxes exceed this total time or cost: 2h, 90m, $5. Finished work is kept.",
        SANDBOXES,
        metavar="TIME|MONEY",
    )

    @property
    def has_cells(self) -> bool:
        """Whether completions may share sandboxes, each in a cell: no cell has a network."""
        is_named = bool(self.allow_hosts or self.private_hosts)
        return not (self.fresh_sandboxes or is_named or self.network not in (None, NetworkMode.NONE))


class RunPart(Config):
    """What a run leaves behind."""

    runs_dir: RunsDir = None
    run_name: str | None = option(None, "Name of the run directory.", OUTPUT, metavar="NAME")
    log_level: LogLevel = option(LogLevel.INFO, "Level of the run's log file.", OUTPUT)
    report_to: Trackers = option(
        (ReportTo.AUTO,),
        f"{_REPORT_HELP}, if there is one.",
        OUTPUT,
        metavar="NAME,…",
        separator=",",
        values="trackers",
        default="auto",
    )
    log_completions: Tries = option(
        0,
        "Also send a table of completions, with rewards and reasons, of every N-th step and each evaluation; 0 sends no"
        " table.",
        OUTPUT,
        metavar="N",
    )

    @model_validator(mode="after")
    def _log_completions_to_somewhere(self) -> Self:
        if self.log_completions and ReportTo.NONE in self.report_to:
            raise ValueError("log_completions: no tracker gets a table, because report_to is none")
        return self

    notify: str | None = option(
        None,
        "Shell command to run when the run ends, with any outcome. SANDRL_OUTCOME and other variables describe the"
        " outcome. The command is saved with the run, so do not put secrets in it.",
        OUTPUT,
        metavar="COMMAND",
    )


class OutputPart(RunPart):
    """What a run of scored completions leaves behind, besides."""

    out: Path | None = option(None, "Append each result to a JSONL file as it arrives.", OUTPUT, metavar="FILE")
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
