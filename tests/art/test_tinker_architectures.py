"""Any causal model of transformers can be served: trained, and sampled as it samples itself."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="not installed: torch (make test-art)")
types: Any = pytest.importorskip("tinker.types", reason="not installed: tinker (make test-art)")
transformers: Any = pytest.importorskip("transformers", reason="not installed: transformers (make test-art)")

from sandrl.trainers.tinker.bodies import Datum  # noqa: E402
from sandrl.trainers.tinker.models import ModelInTraining  # noqa: E402
from sandrl.trainers.tinker.options import AdapterConfig, ServiceOptions  # noqa: E402
from sandrl.trainers.tinker.sampling import Sample, draw, samples  # noqa: E402
from sandrl.trainers.tinker.server import make_service  # noqa: E402

PROMPTS = [[5, 6, 7, 8, 9], [5, 6, 7], [9, 8, 7, 6, 5, 4, 3, 5, 6, 7, 8, 9]]
TOKENS = 6
COMMON = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}
SHAPES: dict[str, dict[str, Any]] = {
    "Bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4},
    "Falcon": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    "GPT2": GPT2,
    "GPTNeoX": {name: size for name, size in COMMON.items() if name != "num_key_value_heads"},
    "Gemma2": {**COMMON, "head_dim": 8},
    "Lfm2": COMMON,
    "Llama": COMMON,
    "Mamba": {"hidden_size": 32, "num_hidden_layers": 2},
    "Mixtral": {**COMMON, "num_local_experts": 4},
    "OPT": {
        "hidden_size": 32,
        "ffn_dim": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 256,
        "word_embed_proj_dim": 32,
    },
    "Qwen3": {**COMMON, "head_dim": 8},
}


def make_model(directory: Path, tokenizer: Any, name: str) -> Any:
    """A small model with random weights, and the tokenizer of the tiny policy."""
    made = getattr(transformers, f"{name}Config")(
        vocab_size=len(tokenizer),
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        pad_token_id=tokenizer.pad_token_id,
        **SHAPES[name],
    )
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(made).eval()
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return model


def datum(tokens: list[int]) -> Datum:
    targets = torch.tensor([*tokens[1:], 7])
    return Datum(tokens, {"target_tokens": targets, "weights": torch.ones(len(tokens))})


@pytest.mark.parametrize("everything", [False, True], ids=["adapters", "all-weights"])
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.filterwarnings("ignore")
def test_a_model_is_trained_and_sampled(untrained_policy: Path, tmp_path: Path, name: str, everything: bool) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(untrained_policy)
    own = make_model(tmp_path / "model", tokenizer, name)
    options = ServiceOptions(str(tmp_path / "model"), tmp_path / "state", trains_all=everything, seed=1)
    base = make_service(options, is_offline=True).base

    # A batch is its members: padding changes nothing.
    model = ModelInTraining(base, AdapterConfig(rank=4, seed=0), everything=everything)
    data = [datum(prompt) for prompt in PROMPTS]
    alone = sum(model.run([each], "cross_entropy", {}, backward=False).loss for each in data)
    before = model.run(data, "cross_entropy", {}, backward=True).loss
    assert before == pytest.approx(alone, rel=1e-4)
    model.step(types.AdamParams(learning_rate=1e-2))
    assert model.run(data, "cross_entropy", {}, backward=False).loss < before - 0.5

    greedy = types.SamplingParams(max_tokens=TOKENS, temperature=0.0)
    together: list[Sample] = [samples(prompt, greedy, 1, base, random.Random(0))[0] for prompt in PROMPTS]
    draw(base, base.weights, together)
    for prompt, drawn in zip(PROMPTS, together, strict=True):
        expected = own.generate(torch.tensor([prompt]), max_new_tokens=TOKENS, do_sample=False)
        assert drawn.tokens == expected[0][len(prompt) :].tolist()
        logits = own(torch.tensor([prompt + drawn.tokens]), use_cache=False).logits[0, len(prompt) - 1 : -1]
        logprobs = torch.log_softmax(logits.float(), dim=-1).gather(-1, torch.tensor(drawn.tokens)[:, None])[:, 0]
        assert drawn.logprobs == pytest.approx(logprobs.tolist(), abs=1e-3)
