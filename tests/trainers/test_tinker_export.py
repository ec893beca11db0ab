"""What `sandrl art export` saves is the model that was trained, for transformers and for peft."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="not installed: torch (make test-grpo)")
transformers: Any = pytest.importorskip("transformers", reason="not installed: transformers (make test-grpo)")
tokenizers: Any = pytest.importorskip("tokenizers", reason="not installed: tokenizers (make test-grpo)")
pytest.importorskip("peft", reason="not installed: peft (make test-grpo)")

from sandrl.config.tinker import Dtype  # noqa: E402
from sandrl.errors import InputError, UsageError  # noqa: E402
from sandrl.settings import Settings, load_settings  # noqa: E402
from sandrl.trainers.tinker.checkpoints import Checkpoints  # noqa: E402
from sandrl.trainers.tinker.export import ExportOptions, export_model  # noqa: E402
from sandrl.trainers.tinker.options import AdapterConfig  # noqa: E402
from sandrl.trainers.tinker.weights import AllWeights, Base, Lora  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

PATH = "tinker://session:train:0/sampler_weights/last"
TOKENS = [[5, 6, 7, 8, 9, 10, 11, 12, 20, 30]]
COMMON = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
EXPERTS = {**COMMON, "head_dim": 8, "moe_intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2}
SHAPES: dict[str, dict[str, Any]] = {
    "GPT2": {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "GptOss": {**COMMON, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2},
    "Llama": COMMON,
    "Mixtral": {**COMMON, "num_local_experts": 4},
    "Qwen3": {**COMMON, "head_dim": 8, "tie_word_embeddings": True},
    "Qwen3Moe": EXPERTS,
}


def saved_model(directory: Path, name: str, dtype: Any = None) -> Path:
    """A small model with random weights, and a tokenizer of letters."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SHAPES[name], bos_token_id=None, eos_token_id=1, pad_token_id=0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.to(dtype or torch.float32).save_pretrained(directory)
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({f"w{number}": number for number in range(64)}, unk_token="w2")
    )
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="w1", pad_token="w0").save_pretrained(
        directory
    )
    return directory


def trained(model: Path, state: Path, *, everything: bool = False, **adapters: bool) -> Any:
    """Saves a checkpoint of changed weights; returns the logits of the model with them."""
    base = Base(str(model))
    config = AdapterConfig(rank=4, seed=0, **adapters)
    tensors = AllWeights(base) if everything else Lora(base, config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in tensors.tensors.values():
            tensor.add_(0.1 * torch.randn(tensor.shape, generator=generator))
        logits = base(tensors.weights(), input_ids=torch.tensor(TOKENS), use_cache=False).logits
        before = base(base.weights, input_ids=torch.tensor(TOKENS), use_cache=False).logits
    assert (logits - before).abs().max() > 0.1
    content = io.BytesIO()
    torch.save({"tensors": {name: tensor.detach() for name, tensor in tensors.tensors.items()}}, content)
    Checkpoints(state).save(PATH, content.getvalue(), str(model), config)
    return logits


def logits_of(directory: Path) -> Any:
    model = transformers.AutoModelForCausalLM.from_pretrained(directory).eval()
    with torch.no_grad():
        return model(input_ids=torch.tensor(TOKENS), use_cache=False).logits


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings()


@pytest.mark.parametrize("adapters", [False, True], ids=["merged", "adapters"])
@pytest.mark.parametrize("name", SHAPES)
def test_an_exported_checkpoint_is_the_trained_model(
    tmp_path: Path, settings: Settings, name: str, adapters: bool
) -> None:
    expected = trained(saved_model(tmp_path / "model", name), tmp_path / "state")
    options = ExportOptions(PATH, adapters=adapters, state=tmp_path / "state")
    exported = export_model(options, tmp_path / "exported", settings)
    assert (tmp_path / "exported" / "adapter_config.json").exists() is adapters
    assert (exported.name, exported.base_model) == ("last", str(tmp_path / "model"))
    torch.testing.assert_close(logits_of(tmp_path / "exported"), expected, atol=1e-4, rtol=1e-4)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported")
    assert tokenizer.convert_tokens_to_ids("w9") == 9


@pytest.mark.parametrize("name", ["GptOss", "Qwen3Moe"])
def test_adapters_of_experts_are_one_tensor_for_each_projection(tmp_path: Path, settings: Settings, name: str) -> None:
    from safetensors.torch import load_file

    trained(saved_model(tmp_path / "model", name), tmp_path / "state")
    export_model(ExportOptions(PATH, adapters=True, state=tmp_path / "state"), tmp_path / "exported", settings)
    tensors = load_file(tmp_path / "exported" / "adapter_model.safetensors")
    prefix = "base_model.model.model.layers.0.mlp.experts"
    size = 48 if name == "GptOss" else 24
    # 4 experts of rank 4; the projection that is named first is the inner one.
    assert tensors[f"{prefix}.base_layer.lora_A.weight"].shape == (16, 32)
    assert tensors[f"{prefix}.base_layer.lora_B.weight"].shape == (2 * size, 16)
    assert tensors[f"{prefix}.lora_A.weight"].shape == (16, size)
    assert tensors[f"{prefix}.lora_B.weight"].shape == (32, 16)


@pytest.mark.parametrize("choice", ["train_attn", "train_mlp", "train_unembed"])
def test_adapters_on_a_part_of_the_model_are_on_this_part_alone(
    tmp_path: Path, settings: Settings, choice: str
) -> None:
    parts = {name: name == choice for name in ("train_attn", "train_mlp", "train_unembed")}
    expected = trained(saved_model(tmp_path / "model", "GPT2"), tmp_path / "state", **parts)
    export_model(ExportOptions(PATH, adapters=True, state=tmp_path / "state"), tmp_path / "exported", settings)
    torch.testing.assert_close(logits_of(tmp_path / "exported"), expected, atol=1e-4, rtol=1e-4)


def test_weights_have_the_numbers_of_the_base_model_or_those_asked_for(tmp_path: Path, settings: Settings) -> None:
    model = saved_model(tmp_path / "model", "Qwen3", torch.bfloat16)
    expected = trained(model, tmp_path / "state")
    for number, (dtype, found) in enumerate(((None, torch.bfloat16), (Dtype.FLOAT32, torch.float32))):
        target = tmp_path / str(number)
        export_model(ExportOptions(PATH, dtype=dtype, state=tmp_path / "state"), target, settings)
        loaded = transformers.AutoModelForCausalLM.from_pretrained(target, dtype="auto")
        assert loaded.dtype is found
        assert json.loads((target / "config.json").read_text())["dtype"] == str(found).removeprefix("torch.")
    torch.testing.assert_close(logits_of(tmp_path / "1"), expected, atol=1e-4, rtol=1e-4)


def test_all_weights_are_a_whole_model_without_adapters(tmp_path: Path, settings: Settings) -> None:
    expected = trained(saved_model(tmp_path / "model", "Qwen3"), tmp_path / "state", everything=True)
    with pytest.raises(UsageError, match="has no adapters: the training was of all weights"):
        export_model(ExportOptions(PATH, adapters=True, state=tmp_path / "state"), tmp_path / "exported", settings)
    assert not (tmp_path / "exported").exists()
    export_model(ExportOptions(PATH, state=tmp_path / "state"), tmp_path / "exported", settings)
    torch.testing.assert_close(logits_of(tmp_path / "exported"), expected, atol=1e-4, rtol=1e-4)
    assert json.loads((tmp_path / "exported" / "config.json").read_text())["tie_word_embeddings"] is True


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("tinker://session:train:0/sampler_weights/other", "there is no checkpoint tinker://session:train:0"),
        ("tinker://../../x/weights/y", "not a path like tinker://RUN/weights/NAME"),
        ("tinker://session:train:0/weights/..", "not a path like"),
        ("tinker://", "not a path like"),
    ],
)
def test_a_checkpoint_that_does_not_exist_is_named(tmp_path: Path, settings: Settings, path: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        export_model(ExportOptions(path, state=tmp_path), tmp_path / "exported", settings)
    assert not (tmp_path / "exported").exists()
