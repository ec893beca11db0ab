"""Samples are drawn from the distribution the model has, alone or in a batch, and end where they were told to."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="not installed: torch (make test-art)")
tinker: Any = pytest.importorskip("tinker", reason="not installed: tinker (make test-art)")

from sandrl.trainers.tinker.options import RequestError  # noqa: E402
from sandrl.trainers.tinker.sampling import draw, samples  # noqa: E402
from sandrl.trainers.tinker.weights import Base  # noqa: E402
from tests.support.tinker_server.process import TinkerServer, made  # noqa: E402

PROMPT = [1, 40, 41, 42, 43, 2, 50, 51]
OTHERS = [[1, 60], list(range(30, 60)), [1, 9, 8, 7, 6], list(range(100, 120))]


@pytest.fixture(scope="module")
def base(untrained_policy: Path) -> Base:
    base = Base(str(untrained_policy))
    # What it was not trained to do it does by chance, and these tests are about other ends.
    base.ends = frozenset()
    return base


@pytest.fixture(scope="module")
def sampler(tinker_server: TinkerServer) -> Any:
    service = tinker.ServiceClient(base_url=tinker_server.base_url, api_key=tinker_server.key)
    return made(service.create_sampling_client(base_model=str(tinker_server.model)))


def drawn(base: Base, prompt: list[int] = PROMPT, *, count: int = 1, **params: Any) -> list[Any]:
    """Samples that were drawn with no others."""
    batch = samples(prompt, tinker.SamplingParams(**{"max_tokens": 12, **params}), count, base, random.Random())
    draw(base, base.weights, batch)
    return batch


def distribution(base: Base, tokens: list[int]) -> Any:
    """What transformers says of the token that comes next."""
    with torch.no_grad():
        return base.module(torch.tensor([tokens])).logits[0, -1]


def test_a_seed_gives_the_same_tokens_alone_and_among_others(base: Base) -> None:
    (alone,) = drawn(base, seed=7)
    batch = samples(PROMPT, tinker.SamplingParams(max_tokens=12, seed=7), 1, base, random.Random())
    for number, prompt in enumerate(OTHERS):
        # Some end early, and are left behind before the others have ended.
        params = tinker.SamplingParams(max_tokens=2 + 7 * (number % 2), temperature=0.5 + number)
        batch[number % 2 : number % 2] = samples(prompt, params, 2, base, random.Random())
    draw(base, base.weights, batch)
    (among,) = [each for each in batch if each.prompt == PROMPT]
    assert among.tokens == alone.tokens
    assert among.logprobs == pytest.approx(alone.logprobs, abs=1e-4)


def test_other_seeds_and_other_samples_of_a_seed_are_others(base: Base) -> None:
    several = drawn(base, count=4, seed=7) + drawn(base, count=1, seed=8) + drawn(base) + drawn(base)
    assert len({tuple(each.tokens) for each in several}) == 7


@pytest.mark.parametrize("temperature", [0.3, 2.0])
def test_logprobs_are_those_of_a_forward_pass_at_the_temperature(base: Base, temperature: float) -> None:
    (sample,) = drawn(base, temperature=temperature, top_k=20)
    for place, (token, logprob) in enumerate(zip(sample.tokens, sample.logprobs, strict=True)):
        logits = distribution(base, PROMPT + sample.tokens[:place])
        assert logprob == pytest.approx(torch.log_softmax(logits / temperature, -1)[token].item(), abs=1e-4)


def test_a_temperature_of_nothing_takes_the_likeliest(base: Base) -> None:
    # That these are the model's own, and their logprobs, is tested with every architecture.
    (greedy,) = drawn(base, temperature=0.0)
    assert drawn(base, top_k=1)[0].tokens == drawn(base, top_p=1e-6)[0].tokens == greedy.tokens


@pytest.mark.parametrize("cut", [{"top_k": 5}, {"top_p": 0.1}, {"top_k": 3, "top_p": 0.1}, {"temperature": 0.25}])
def test_tokens_come_as_often_as_they_are_likely(base: Base, cut: dict[str, Any]) -> None:
    chances = torch.softmax(distribution(base, PROMPT) / cut.get("temperature", 1.0), -1)
    ordered, order = chances.sort(descending=True)
    kept = len(chances)
    if "top_p" in cut:
        kept = 1 + int((ordered.cumsum(0) < cut["top_p"]).sum())
    kept = min(kept, int(cut.get("top_k", kept)))
    assert kept > 1
    expected = dict(zip(order[:kept].tolist(), (ordered[:kept] / ordered[:kept].sum()).tolist(), strict=True))
    count = 4096
    seen = Counter(each.tokens[0] for each in drawn(base, count=count, max_tokens=1, seed=1, **cut))
    assert set(seen) <= set(expected)
    # Half of what one would expect from chance alone is √(2 / π · p / n) for each token.
    chance = sum((p / count) ** 0.5 for p in expected.values()) * 0.4
    assert sum(abs(seen[token] / count - p) for token, p in expected.items()) / 2 < 2 * chance


def test_a_stop_token_ends_a_sequence_and_is_part_of_it(base: Base) -> None:
    (free,) = drawn(base, seed=5)
    assert (free.stop_reason, len(free.tokens)) == ("length", 12)
    stop = free.tokens[4]
    first = free.tokens.index(stop)
    (stopped,) = drawn(base, seed=5, stop=[stop])
    assert (stopped.stop_reason, stopped.tokens) == ("stop", free.tokens[: first + 1])
    assert len(stopped.logprobs) == first + 1


def test_a_stop_string_ends_a_sequence_with_the_token_that_completes_it(base: Base) -> None:
    (free,) = drawn(base, seed=5)
    # From the middle of a token to the middle of another.
    text = base.tokenizer.decode(free.tokens[:6])
    stop = text[-3:]
    ends = next(place for place in range(13) if stop in base.tokenizer.decode(free.tokens[:place]))
    for given in (stop, ["never said in so many words", stop]):
        (stopped,) = drawn(base, seed=5, stop=given)
        assert (stopped.stop_reason, stopped.tokens) == ("stop", free.tokens[:ends])


def test_the_models_own_end_ends_a_sequence(base: Base, untrained_policy: Path) -> None:
    fresh = Base(str(untrained_policy))
    assert fresh.ends == {fresh.tokenizer.convert_tokens_to_ids("<|im_end|>")}
    (free,) = drawn(base, seed=5)
    fresh.ends = frozenset([free.tokens[3]])
    (ended,) = drawn(fresh, seed=5)
    assert ended.tokens == free.tokens[: free.tokens.index(free.tokens[3]) + 1]


def test_without_a_limit_a_sequence_may_fill_the_context_window(base: Base) -> None:
    (sample,) = drawn(base, PROMPT * 127, max_tokens=None)
    assert len(sample.prompt) + len(sample.tokens) == base.positions
    with pytest.raises(RequestError, match=r"context window: 1016 \+ 9 > 1024"):
        drawn(base, PROMPT * 127, max_tokens=9)


def test_the_sdk_gets_logprobs_of_prompts_and_of_samples_alike(sampler: Any, untrained_policy: Path) -> None:
    prompt = tinker.ModelInput.from_ints(PROMPT)
    answer = sampler.sample(prompt, 3, tinker.SamplingParams(max_tokens=8, seed=2)).result()
    assert len(answer.sequences) == 3
    for sequence in answer.sequences:
        scored = sampler.compute_logprobs(tinker.ModelInput.from_ints(PROMPT + sequence.tokens)).result()
        assert scored[0] is None
        assert scored[len(PROMPT) :] == pytest.approx(sequence.logprobs, abs=1e-4)
    top = sampler.sample(prompt, 1, tinker.SamplingParams(max_tokens=1), topk_prompt_logprobs=3).result()
    base = Base(str(untrained_policy))
    for place, likeliest in enumerate(top.topk_prompt_logprobs[1:], start=1):
        values, tokens = torch.log_softmax(distribution(base, PROMPT[:place]), -1).topk(3)
        assert [token for token, _ in likeliest] == tokens.tolist()
        assert [logprob for _, logprob in likeliest] == pytest.approx(values.tolist(), abs=1e-4)


def test_a_sampler_stays_what_it_was_while_its_model_is_trained(tinker_server: TinkerServer) -> None:
    service = tinker.ServiceClient(base_url=tinker_server.base_url, api_key=tinker_server.key)
    client = made(service.create_lora_training_client(str(tinker_server.model), rank=4, seed=0))
    prompt = tinker.ModelInput.from_ints(PROMPT)
    inputs = {"target_tokens": [*PROMPT[1:], 7], "weights": [1.0] * len(PROMPT)}
    example = tinker.Datum(model_input=prompt, loss_fn_inputs=inputs)
    samplers, forward = [], []
    for name in ("before", "after"):
        forward.append(client.forward([example], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data)
        saved = client.save_weights_for_sampler(name).result().path
        samplers += [
            made(service.create_sampling_client(model_path=saved)),
            made(client.save_weights_and_get_sampling_client()),
        ]
        client.forward_backward([example], "cross_entropy").result()
        client.optim_step(tinker.AdamParams(learning_rate=0.01)).result()
    scores = [each.compute_logprobs(prompt).result()[1:] for each in samplers]
    for score, logprobs in zip(scores, [forward[0], forward[0], forward[1], forward[1]], strict=True):
        assert score == pytest.approx(logprobs[:-1], abs=1e-4)
    assert scores[0] != pytest.approx(scores[2], abs=0.1)
    assert samplers[0].get_base_model() == str(tinker_server.model)
