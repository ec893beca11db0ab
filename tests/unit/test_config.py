"""Every field of every configuration survives each of its views, and errors name fields."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import typer
from annotated_types import Ge, Gt, Le, Lt
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic.fields import FieldInfo
from typer.main import get_command

from sandrl.bounds import LONGEST_SECONDS, SHORTEST_SECONDS
from sandrl.cli.commands import check_all
from sandrl.cli.configured import _opposite, configured
from sandrl.config.art import ArtBackendKind, ArtPolicy, ArtTrainConfig
from sandrl.config.commands import CONFIGS
from sandrl.config.episodes import EpisodesConfig, RolloutConfig
from sandrl.config.eval import EvalConfig
from sandrl.config.fields import KEY_VALUE, flags, options
from sandrl.config.grpo import GrpoConfig
from sandrl.config.layers import resolve
from sandrl.config.model import Config
from sandrl.config.parts import MOST_RANKED, GroupJudgePart, JudgePart, QuestionPart, ScoringPart
from sandrl.config.scoring import OF_SANDBOXES, RedteamConfig, RewardConfig
from sandrl.config.serve import ServeConfig
from sandrl.config.tinker import TinkerServeConfig
from sandrl.config.toml import read_toml, to_toml
from sandrl.config.words import EpisodeKind, Overlap
from sandrl.errors import InputError, UsageError
from sandrl.settings import ReportTo

MODELS = list(dict.fromkeys(CONFIGS.values()))
SCORING_MODELS = [model for model in MODELS if model is not TinkerServeConfig]
# What a configuration without defaults of its own is made from here.
REQUIRED: dict[type[Config], dict[str, str]] = {GrpoConfig: {"model": "m", "problems": "p"}}

# What a shell can pass, without blanks at its ends, which lists that are one word do not keep.
WORDS = st.text(st.characters(codec="utf-8", exclude_characters=",\0", exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: text == text.strip() and bool(text)
)
BUDGETS = st.sampled_from(["2h", "90m", "1.5s", "1h 30m", "$5", "0.25 EUR"])
RUNTIMES = st.sampled_from(["auto", "local", "ray", "ray:host:6379", "ray:ray://host:10001"])


def rules(annotation: Any) -> Iterator[Any]:
    """What is attached to a type, and to those in it."""
    for each in getattr(annotation, "__metadata__", ()):
        yield from each.metadata if isinstance(each, FieldInfo) else [each]
    for part in get_args(annotation):
        yield from rules(part)


def plain(annotation: Any) -> Any:
    """The type of a field without None and what is attached to it."""
    if hasattr(annotation, "__metadata__"):
        return plain(get_args(annotation)[0])
    parts = [part for part in get_args(annotation) if part is not type(None)]
    is_union = type(None) in get_args(annotation)
    return plain(parts[0]) if is_union else annotation


def values(name: str, field: FieldInfo) -> st.SearchStrategy[Any]:
    """Possible values of a field, made of nothing but its declaration, unless a function of its own checks its text."""
    kind = plain(field.annotation)
    attached = [*field.metadata, *rules(field.annotation)]
    # What a rule holds is anything that can be compared; ours are numbers.
    low: Any = next((rule.ge for rule in attached if isinstance(rule, Ge)), None)
    high: Any = next((rule.le for rule in attached if isinstance(rule, Le)), None)
    below: Any = next((rule.lt for rule in attached if isinstance(rule, Lt)), None)
    above: Any = next((rule.gt for rule in attached if isinstance(rule, Gt)), None)
    found: st.SearchStrategy[Any]
    if name in ("runtime", "budget"):
        found = RUNTIMES if name == "runtime" else BUDGETS
    elif name == "difficulty":
        found = st.sampled_from(["0.1..0.9", "..0.5", "0.25..", "0..1"])
    elif get_origin(kind) is Literal:
        found = st.sampled_from(get_args(kind))
    elif name == "report_to":
        trackers = [each for each in ReportTo if each is not ReportTo.NONE]
        several = st.lists(st.sampled_from(trackers), min_size=1, unique=True).map(tuple)
        found = several | st.just((ReportTo.NONE,))
    elif get_origin(kind) is tuple:
        found = st.lists(WORDS, max_size=3).map(tuple)
    elif get_origin(kind) is dict:
        found = st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), WORDS, max_size=3)
    elif issubclass(kind, Enum):
        found = st.sampled_from(list(kind))
    elif kind is bool:
        found = st.booleans()
    elif kind is int:
        found = st.integers(low, min((each for each in (high, below and below - 1) if each is not None), default=None))
    elif kind is float:
        bounds = (SHORTEST_SECONDS, LONGEST_SECONDS) if name.endswith("_seconds") else (low, high)
        found = st.floats(*bounds, allow_nan=False, allow_infinity=False)
        found = found if above is None else found.filter(lambda number: number > above)
    else:
        pattern = next((rule.pattern for rule in attached if getattr(rule, "pattern", None)), None)
        found = WORDS.map(kind) if pattern is None else st.from_regex(pattern).filter(str.isprintable)
    return st.none() | found if field.default is None else found


def ask_possibly(model: type[Config], chosen: dict[str, Any]) -> None:
    """Makes of a question one that the command can ask."""
    for name in ("system_prompt", "prompt_template"):
        # An `@` would name a file, and two stand for one.
        if (chosen[name] or "").startswith("@"):
            chosen[name] = f"@@{chosen[name].lstrip('@')}"
    if chosen["prompt_template"] is not None:
        chosen["prompt_template"] += "{prompt}"
    is_elsewhere = model is ArtTrainConfig and chosen["backend"] not in (ArtBackendKind.AUTO, ArtBackendKind.LOCAL)
    if is_elsewhere or model is RolloutConfig or (model is EvalConfig and chosen.get("base_url") is not None):
        chosen["chat_template"] = None
    chosen["extra_body"] = {f"own_{name}": value for name, value in chosen["extra_body"].items()}
    has_tools = "tools" in (chosen.get("rollout"), getattr(chosen.get("rollout"), "value", ""))
    if has_tools or chosen.get("trajectories") is not None:
        chosen["few_shot"] = 0
    if not chosen["few_shot"]:
        chosen["few_shot_from"] = None
    if chosen["chat_template"] == "plain" and has_tools:
        chosen["chat_template"] = None
    if model is GrpoConfig:
        chosen |= {"extra_body": {}, "max_attempts": 1, "stop": chosen["stop"] if chosen["vllm"] else ()}
        is_behind = chosen["overlap"] is Overlap.STEP
        if has_tools or chosen["dynamic_sampling" if is_behind else "vllm"]:
            chosen["overlap"] = Overlap.NONE
    if model is EvalConfig:
        if not chosen["temperature"]:
            chosen |= dict.fromkeys(("top_p", "top_k", "min_p"))
        if chosen.get("service") is not None or chosen.get("max_sandboxes") is not None:
            chosen["max_attempts"] = 1
        if chosen.get("service") is not None:
            chosen["rollout"] = None
    if model is ArtTrainConfig and chosen["trajectories"] is not None:
        for name, field in QuestionPart.model_fields.items():
            if name != "max_attempts":
                chosen[name] = field.get_default(call_default_factory=True)
    elif model is ArtTrainConfig and chosen["policy"] is ArtPolicy.TRAINED:
        chosen |= {"min_p": None, "stop": (), "extra_body": {}}


def configs(model: type[Config]) -> st.SearchStrategy[Config]:
    """Possible configurations."""
    fields = {name: values(name, field) for name, field in model.model_fields.items()}

    def possible(chosen: dict[str, Any]) -> Config:
        if "cache" in chosen and not chosen["caching"]:
            chosen["cache"] = None
        if chosen.get("agent") is not None:
            chosen["max_tool_calls"] = None
            if chosen["rollout"] is EpisodeKind.ATTEMPTS:
                chosen["rollout"] = EpisodeKind.TOOLS
                chosen["few_shot"] = 0
        if chosen.get("report_to") == (ReportTo.NONE,):
            chosen["log_completions"] = 0
        if chosen.get("trajectories") is not None:
            chosen |= {"min_quality": None, "profile": None, "deduplicate": False, "dynamic_sampling": 0}
            chosen["max_flat_rounds"] = 3
        if "profile" in chosen:
            if chosen["profile"] is None:
                chosen["difficulty"] = chosen["curriculum"] = None
            elif chosen["curriculum"] is None:
                chosen["difficulty"] = chosen["difficulty"] or "0.1..0.9"
        if chosen.get("min_quality") is None and "cards" in chosen:
            chosen["cards"] = None
        if chosen.get("batch_size") is not None and not issubclass(model, EvalConfig):
            chosen["batch_size"] = chosen["samples"] * max(1, chosen["batch_size"] // chosen["samples"])
        if "eval_every" in chosen and not chosen["eval_problems"]:
            chosen |= {"eval_every": None, "eval_set": None, "decontaminate": False}
        if "vllm_server_url" in chosen:
            is_served = chosen["vllm"] == "server"
            chosen["vllm_server_url"] = "http://localhost:8000" if is_served else None
        if issubclass(model, EvalConfig) and not chosen["temperature"]:
            chosen["samples"] = None
        if chosen.get("service") is not None:
            chosen = {name: value for name, value in chosen.items() if name not in OF_SANDBOXES}
            chosen |= {"service": "http://localhost:8642", "reward": "fraction"}
        if issubclass(model, JudgePart) and (chosen.get("service") or chosen.get("trajectories")) is not None:
            chosen = {name: value for name, value in chosen.items() if name not in GroupJudgePart.model_fields}
        elif issubclass(model, JudgePart):
            chosen["judge_base_url"] = "http://localhost:8000/v1"
            if not 2 <= (chosen.get("samples") or 0) <= MOST_RANKED and "judge_ranking" in chosen:
                chosen["judge_ranking"] = False
        if model is RedteamConfig:
            chosen["judge_weight"] = 1.0
        if model is ServeConfig:
            chosen["second_opinion"], chosen["hash_seeds"] = 0.0, 1
            chosen["certificate_key"] = chosen["certificate"]
        if chosen.get("base_url") is not None:
            chosen["base_url"] = "http://localhost:8000/v1"
            if "use_model_sampling" in chosen:
                chosen["use_model_sampling"] = False
        if chosen.get("max_sandboxes") is not None and issubclass(model, EpisodesConfig):
            chosen["max_sandboxes"] = max(2, chosen["max_sandboxes"])
        if model is TinkerServeConfig:
            chosen["host"] = "127.0.0.1"
        if issubclass(model, QuestionPart):
            ask_possibly(model, chosen)
        if model is ArtTrainConfig:
            may_overlap = chosen["trajectories"] is None and chosen["backend"] is not ArtBackendKind.LOCAL
            is_ahead = chosen["overlap"] is not Overlap.NONE and may_overlap
            chosen["overlap"] = Overlap.STEP if is_ahead else Overlap.NONE
            adapters_only = (ArtBackendKind.LOCAL, ArtBackendKind.TINKER, ArtBackendKind.SERVERLESS)
            chosen["lora"] = chosen["lora"] or chosen["backend"] in adapters_only
            if chosen["backend"] is ArtBackendKind.SERVERLESS:
                chosen |= {"policy": ArtPolicy.TRAINED, "lora_rank": 8, "renderer": None}
            chosen["num_problems"] = max(chosen["num_problems"], (chosen["batch_size"] or 0) // chosen["samples"])
            if chosen["policy"] is ArtPolicy.TRAINED:
                chosen["temperature"] = chosen["temperature"] or 1.0
            if chosen["policy"] is ArtPolicy.TRAINED or chosen["trajectories"] is not None:
                chosen["model"] = chosen["base_url"] = None
        return model.model_validate(chosen)

    return st.fixed_dictionaries(fields).map(possible)


@functools.cache
def command_of(model: type[Config]) -> tuple[Any, list[Config]]:
    """A command with this configuration, and where it puts what it is given."""
    got: list[Config] = []
    app = typer.Typer()

    def command(config: Config) -> None:
        got.append(config)

    app.command()(configured(model)(command))
    check_all(app)
    return get_command(app), got


def heard(model: type[Config], words: list[str]) -> Config:
    """What a command with this configuration makes of a command line."""
    command, got = command_of(model)
    command.main(words, prog_name="sandrl", standalone_mode=False)
    return got.pop()


def words_of(config: Config) -> list[str]:
    """A configuration as the words of a command line that means the same."""
    said: list[str] = []
    arguments: list[str] = []
    for name, option in options(type(config)):
        value, spelled = getattr(config, name), flags(type(config))[name]
        if option.is_argument:
            arguments += [] if value is None else [str(value)]
        elif isinstance(value, bool):
            said.append(spelled if value else _opposite(name, option))
        elif isinstance(value, dict) and option.metavar != KEY_VALUE:
            said += [f"{spelled}={json.dumps(value)}"] if value else []
        elif isinstance(value, dict):
            said += [f"{spelled}={key}={each}" for key, each in value.items()]
        elif isinstance(value, tuple):
            said += [f"{spelled}={option.separator.join(value)}"] if option.separator and value else []
            said += [] if option.separator else [f"{spelled}={each}" for each in value]
        elif value is not None:
            said.append(f"{spelled}={value}")
    return [*said, "--", *arguments] if arguments else said


@pytest.mark.parametrize("model", MODELS)
def test_every_field_survives_command_line_and_toml_and_json(model: type[Config], tmp_path: Path) -> None:
    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(configs(model))
    def survives(config: Config) -> None:
        from_words = heard(model, words_of(config))
        assert from_words == config
        path = tmp_path / "config.toml"
        path.write_text(to_toml(from_words), encoding="utf-8", newline="")
        from_file = resolve(model, read_toml(model, path))
        assert from_file == config
        saved = json.loads(json.dumps(from_file.document()))
        from_json = resolve(model, saved)
        assert from_json == config
        assert heard(model, words_of(from_json)) == config

    survives()


@pytest.mark.parametrize("model", SCORING_MODELS)
def test_the_command_line_beats_the_file_which_beats_the_defaults(model: type[Config], tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('timeout_seconds = 3.0\nrequire_isolated = true\nimage = "mine"\n', encoding="utf-8")
    required = [f"--{name}={value}" for name, value in REQUIRED.get(model, {}).items()]
    config = heard(model, [*required, "--config", str(path), "--timeout", "4", "--no-require-isolated"])
    chosen = config.document()
    assert (chosen["timeout_seconds"], chosen["require_isolated"], chosen["image"]) == (4.0, False, "mine")
    assert chosen["retries"] == 2


def test_a_default_that_is_given_beats_the_file_too(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("retries = 7\n", encoding="utf-8")
    assert heard(RewardConfig, ["--config", str(path), "--retries", "2"]).document()["retries"] == 2


@pytest.mark.parametrize("model", SCORING_MODELS)
def test_every_command_that_scores_has_every_scoring_option(model: type[Config]) -> None:
    assert set(ScoringPart.model_fields) <= set(model.model_fields)


def test_one_flag_means_one_field_in_every_command() -> None:
    fields: dict[str, set[str]] = {}
    for model in MODELS:
        for name, spelled in flags(model).items():
            if spelled.startswith("--"):
                fields.setdefault(spelled, set()).add(name)
    assert {spelled: names for spelled, names in fields.items() if len(names) > 1} == {}


@pytest.mark.parametrize("model", MODELS)
def test_no_field_without_a_value_has_another_default(model: type[Config]) -> None:
    """TOML has no word for no value."""
    optional = [name for name, field in model.model_fields.items() if type(None) in get_args(field.annotation)]
    assert [name for name in optional if model.model_fields[name].default is not None] == []
    assert [name for name, _ in options(model)] == list(resolve(model, REQUIRED.get(model, {})).document())


@pytest.mark.parametrize(
    ("given_values", "message", "fields"),
    [
        ({"timeout_seconds": 0}, "timeout_seconds must be at least 0.01 seconds", ("timeout_seconds",)),
        ({"retries": -1}, "retries: Input should be greater than or equal to 0, not -1", ("retries",)),
        ({"second_opinion": float("nan")}, "second_opinion: Input should be", ("second_opinion",)),
        ({"cache": "x", "caching": False}, "cache: has no effect without caching", ("cache",)),
        ({"tags": ("a", " ")}, "tags must not be empty", ("tags",)),
        ({"timeout_secs": 1}, "there is no option 'timeout_secs'; did you mean 'timeout_seconds'?", ()),
    ],
)
def test_an_impossible_value_is_refused_by_the_name_of_its_field(
    given_values: dict[str, Any], message: str, fields: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(RewardConfig, given_values)
    assert caught.value.message.startswith(message)
    assert caught.value.fields == (*fields, "print_config")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stepz = 3", "field 'stepz': there is no such key"),
        ("retrys = 3", "did you mean 'retries'?"),
        ("retries = ", "is not TOML"),
    ],
)
def test_a_file_that_cannot_be_used_says_where(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_toml(RewardConfig, path)
    assert message in caught.value.message


def test_no_command_takes_more_than_a_handful_of_parameters() -> None:
    from sandrl.cli import eval as evaluation
    from sandrl.cli import grpo, problems, redteam, regrade, reward
    from sandrl.cli.art import rollout, train

    others = (problems.validate, redteam.redteam, regrade.regrade, reward.reward, rollout.rollout, train.train)
    for body in (evaluation.evaluate, grpo.grpo, *others):
        # An evaluation also has a set of many configurations, and the format of its leaderboard.
        most = 7 if body is evaluation.evaluate else 5
        assert len(inspect.signature(inspect.unwrap(body)).parameters) <= most
