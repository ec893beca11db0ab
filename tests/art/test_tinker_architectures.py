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
from sandrl.trainers.tinker.weights import UP  # noqa: E402

# Models with experts, of which the prompts reach several.
EXPERTS = ("GptOss", "Mixtral", "Qwen3Moe")
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
    "GptOss": {**COMMON, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2},
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
    "Qwen3Moe": {**COMMON, "head_dim": 8, "moe_intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2},
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
    if name in EXPERTS and not everything:
        # One tensor for all experts of a layer, of which each has its own.
        ups = [tensor for each, tensor in model.tensors.items() if ".experts." in each and each.endswith(UP)]
        assert [tuple(up.shape[:1]) for up in ups] == [(4,)] * 4
        assert all(up.flatten(1).any(dim=1).sum() > 1 for up in ups)
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


@pytest.mark.parametrize("everything", [False, True], ids=["adapters", "all-weights"])
@pytest.mark.filterwarnings("ignore")
def test_a_model_computes_in_bfloat16_and_is_trained_in_32_bits(
    untrained_policy: Path, tmp_path: Path, everything: bool
) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(untrained_policy)
    make_model(tmp_path / "model", tokenizer, "Qwen3")
    options = ServiceOptions(str(tmp_path / "model"), tmp_path / "state", trains_all=everything, dtype="bfloat16")
    base = make_service(options, is_offline=True).base
    assert {tensor.dtype for tensor in base.weights.values()} == {torch.bfloat16}
    assert (base.has_cache, base.ignores_padding) == (True, True)
    model = ModelInTraining(base, AdapterConfig(rank=4, seed=0), everything=everything)
    assert {tensor.dtype for tensor in model.tensors.values()} == {torch.float32}
    data = [datum(prompt) for prompt in PROMPTS]
    losses = []
    for _ in range(20):
        losses.append(model.run(data, "cross_entropy", {}, backward=True).loss)
        # Too little for bfloat16: added to a weight of such numbers, most of a step would be lost.
        model.step(types.AdamParams(learning_rate=2e-4))
    assert losses[-1] < losses[0] - 0.1
    (sample,) = samples(PROMPTS[0], types.SamplingParams(max_tokens=TOKENS, seed=1), 1, base, random.Random(0))
    draw(base, model.whole(), [sample])
    scored = model.run([datum([*PROMPTS[0], *sample.tokens])], "cross_entropy", {}, backward=False).logprobs[0]
    told = scored[len(PROMPTS[0]) - 1 : -1].tolist()
    assert sample.logprobs == pytest.approx(told, abs=0.05)
