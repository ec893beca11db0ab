"""What Unsloth is asked for, and what is found of it, without Unsloth: stand-ins have its names and nothing else."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sandrl.config.grpo import GrpoConfig
from sandrl.errors import HardwareError, MissingExtraError, UsageError
from sandrl.events import Event, Warned
from sandrl.installation import install_command, package_command
from sandrl.models import libraries
from sandrl.models.adapters import find_adapters
from sandrl.models.description import ModelDescription
from sandrl.models.places import ModelPlace
from sandrl.models.templates import ChatTemplate
from sandrl.settings import Settings, load_settings
from sandrl.trainers.config import resolve
from sandrl.trainers.loaders import TRL
from sandrl.trainers.training import PrintedFile
from sandrl.trainers.unsloth import UNSLOTH

PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class FastLanguageModel:
    """Remembers what it was asked for."""

    asked: dict[str, Any]
    adapters: dict[str, Any] | None

    @classmethod
    def from_pretrained(cls, **arguments: Any) -> tuple[str, str]:
        cls.asked, cls.adapters = arguments, None
        return "model", "tokenizer"

    @classmethod
    def get_peft_model(cls, model: str, **arguments: Any) -> str:
        assert model == "model"
        cls.adapters = arguments
        return "model with adapters"


def described(model: str, positions: int = 32768) -> ModelDescription:
    place, template = ModelPlace(model, is_directory=False, is_offline=True), ChatTemplate("own", "", "")
    return ModelDescription(model, place, find_adapters(model), None, None, template, True, {}, positions, None, ())


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "has_gpu", lambda: True)
    monkeypatch.setitem(sys.modules, "unsloth", SimpleNamespace(FastLanguageModel=FastLanguageModel))


def config_of(model: str, **given: Any) -> GrpoConfig:
    return resolve({"model": model, **given}, further=UNSLOTH.defaults(is_tiny=False))


@pytest.mark.usefixtures("gpu")
def test_on_a_gpu_a_policy_is_loaded_in_4_bits_with_adapters_in_all_seven_projections() -> None:
    policy = UNSLOTH.policy(described("org/model"), config_of("org/model", seed=7))
    assert (policy.model, policy.tokenizer, policy.peft_config) == ("model with adapters", "tokenizer", None)
    assert FastLanguageModel.asked == {
        "model_name": "org/model",
        "max_seq_length": 1536 + 512,
        "dtype": None,
        "load_in_4bit": True,
        "full_finetuning": False,
        "fast_inference": False,
        "max_lora_rank": 16,
        "use_gradient_checkpointing": "unsloth",
    }
    assert FastLanguageModel.adapters == {
        "r": 16,
        "target_modules": PROJECTIONS,
        "lora_alpha": 32,
        "lora_dropout": 0.0,
        "bias": "none",
        "use_gradient_checkpointing": "unsloth",
        "random_state": 7,
    }


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"lora": False}, {"load_in_4bit": False, "full_finetuning": True}),
        ({"vllm": "colocate", "lora_rank": 64}, {"fast_inference": True, "max_lora_rank": 64}),
        (
            {"vllm": "colocate", "set": {"vllm_gpu_memory_utilization": 0.6}},
            {"fast_inference": True, "gpu_memory_utilization": 0.6},
        ),
        ({"max_tokens": 4096}, {"max_seq_length": 1536 + 4096}),
        # Never longer than the model: Unsloth would stretch its positions.
        ({"model": "small/model"}, {"max_seq_length": 1024}),
    ],
)
def test_options_reach_unsloth(given: dict[str, Any], asked: dict[str, Any]) -> None:
    config = config_of(**{"model": "org/model", **given})
    UNSLOTH.policy(described(config.model, 1024 if config.model == "small/model" else 32768), config)
    assert {name: FastLanguageModel.asked[name] for name in asked} == asked
    assert (FastLanguageModel.adapters is None) is (given.get("lora") is False)


@pytest.mark.usefixtures("gpu")
def test_the_adapters_of_a_checkpoint_are_loaded_as_they_are(tmp_path: Path) -> None:
    content = {"peft_type": "LORA", "base_model_name_or_path": "small/model", "r": 4}
    (tmp_path / "adapter_config.json").write_text(json.dumps(content), encoding="utf-8")
    policy = UNSLOTH.policy(described(str(tmp_path), 1024), config_of(str(tmp_path), lora_rank=4))
    assert (policy.model, FastLanguageModel.adapters) == ("model", None)
    asked = {name: FastLanguageModel.asked[name] for name in ("model_name", "max_seq_length", "max_lora_rank")}
    assert asked == {"model_name": str(tmp_path), "max_seq_length": 1024, "max_lora_rank": 4}


@pytest.mark.usefixtures("gpu")
def test_what_unsloth_refuses_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**arguments: Any) -> None:
        raise RuntimeError("Unsloth: `org/model` is not supported!\nMore lines.")

    monkeypatch.setattr(FastLanguageModel, "from_pretrained", refuse)
    with pytest.raises(UsageError, match=r"^Unsloth cannot load org/model: Unsloth: `org/model` is not supported!$"):
        UNSLOTH.policy(described("org/model"), config_of("org/model"))


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Those of a machine without a GPU, and an environment in which Unsloth was never imported."""
    monkeypatch.setattr(libraries, "has_gpu", lambda: False)
    for name in ("UNSLOTH_COMPILE_LOCATION", "UNSLOTH_DISABLE_STATISTICS"):
        # Set first, so that it is unset again afterwards.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return replace(load_settings(), cache_dir=tmp_path / "cache")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The source of the package `unsloth` that is imported."""
    monkeypatch.delitem(sys.modules, "unsloth", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "unsloth.py"
    sys.modules.pop("unsloth", None)


def test_importing_unsloth_says_one_line_and_leaves_the_current_directory_alone(
    settings: Settings, package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package.write_text("import sys\nprint('banner')\nprint('warning', file=sys.stderr)\n")
    told: list[Event] = []
    UNSLOTH.prepare(settings, emit=told.append)
    assert told == [Warned("no GPU: training on Unsloth's CPU backend, in full precision instead of 4 bits")]
    assert capsys.readouterr() == ("", "")
    assert os.environ["UNSLOTH_COMPILE_LOCATION"] == str(settings.cache_dir / "unsloth")
    assert os.environ["UNSLOTH_DISABLE_STATISTICS"] == "1"


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("raise NotImplementedError('You need a GPU.')", HardwareError, "this release of Unsloth needs a GPU"),
        ("raise ImportError('trl is too new\\nMore.')", UsageError, "Unsloth cannot be loaded: trl is too new$"),
        ("import no_such_package_of_unsloths", MissingExtraError, "'no_such_package_of_unsloths' is not installed"),
    ],
)
def test_an_unsloth_that_cannot_be_imported_is_one_line_with_a_way_out(
    settings: Settings, package: Path, source: str, kind: type[UsageError], message: str
) -> None:
    package.write_text(source)
    with pytest.raises(kind, match=message) as caught:
        UNSLOTH.prepare(settings)
    assert caught.value.hint is not None
    assert caught.value.hint in {
        install_command("unsloth"),
        f"release 2026.10.9 trains without a GPU: {package_command('unsloth>=2026.10.9')}",
    }


def test_without_the_package_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="the package 'unsloth' is not installed") as caught:
        UNSLOTH.check_installed()
    assert caught.value.hint == install_command("unsloth")


def test_each_loader_has_a_real_model_of_its_own() -> None:
    configs = [
        resolve({}, default_model=loader.model, further=loader.defaults(is_tiny=False)) for loader in (TRL, UNSLOTH)
    ]
    assert [each.model for each in configs] == [
        "Qwen/Qwen2.5-0.5B-Instruct",
        "unsloth/Qwen2.5-0.5B-Instruct-bnb-4bit",
    ]
    assert [(each.lora, each.learning_rate) for each in configs] == [(False, 1e-6), (True, 5e-6)]


class Weights:
    def __init__(self, count: int, *, requires_grad: bool) -> None:
        self.count, self.requires_grad = count, requires_grad

    def numel(self) -> int:
        return self.count


class Linear4bit:
    def forward(self) -> None: ...


class Qwen2Attention:
    def forward(self) -> None: ...


Qwen2Attention.forward.__module__ = "unsloth.models.llama"


class Model:
    _offloaded_gradient_checkpointing = True
    peft_config = {"default": SimpleNamespace(r=16, target_modules={"v_proj", "q_proj"})}  # noqa: RUF012

    def forward(self) -> None: ...

    def parameters(self) -> list[Weights]:
        return [Weights(5000, requires_grad=False), Weights(1200, requires_grad=True)]

    def modules(self) -> list[object]:
        return [self, Linear4bit(), Linear4bit(), Qwen2Attention()]


class Plain(Model):
    _offloaded_gradient_checkpointing = False
    peft_config: dict[str, Any] = {}  # noqa: RUF012

    def modules(self) -> list[object]:
        return [self]


class UnslothTrainer(SimpleNamespace):
    __module__ = "UnslothGRPOTrainer"


def trainer_of(model: Model, kind: type[SimpleNamespace]) -> Any:
    return kind(model=model, accelerator=SimpleNamespace(unwrap_model=lambda wrapped: wrapped))


def test_the_optimizations_told_are_those_found_in_the_trainer_and_its_model() -> None:
    assert UNSLOTH.optimizations(trainer_of(Model(), UnslothTrainer)) == (
        "2 linear layers in 4 bits",
        "LoRA of rank 16 in q_proj, v_proj: 1,200 weights trained",
        "gradient checkpointing by Unsloth: activations are offloaded",
        "forward passes by Unsloth: 1 Qwen2Attention",
        "training loop compiled by Unsloth",
    )
    assert UNSLOTH.optimizations(trainer_of(Plain(), SimpleNamespace)) == ()
    assert TRL.optimizations(trainer_of(Model(), UnslothTrainer)) == ()


def test_what_libraries_print_makes_a_file_only_when_there_is_something(tmp_path: Path) -> None:
    path = tmp_path / "printed.log"
    print("", end="", file=PrintedFile(path))
    assert not path.exists()
    for line in ("one", "\udce9"):
        print(line, file=PrintedFile(path))
    assert path.read_text() == "one\n\\udce9\n"
    print("lost", file=PrintedFile(tmp_path / "no such directory" / "printed.log"))
