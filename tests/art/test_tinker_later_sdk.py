"""What later versions of the SDK ask of a service: protocol buffers, ends of sessions, and more than is computed."""

from __future__ import annotations

import math
from typing import Any

import pytest

httpx: Any = pytest.importorskip("httpx", reason="not installed: httpx (make test-grpo)")
tinker: Any = pytest.importorskip("tinker", reason="not installed: tinker (make test-grpo)")

from tests.support.tinker_server.process import TinkerServer, made  # noqa: E402

pytestmark = pytest.mark.skipif(
    not hasattr(tinker, "RestClient"), reason="an early version of the SDK (make test-grpo)"
)

PROMPT = [1, 40, 41, 42, 43, 2, 50, 51]
TEXT = tinker.ModelInput.from_ints(PROMPT)


@pytest.fixture
def service(tinker_server: TinkerServer) -> Any:
    return tinker.ServiceClient(base_url=tinker_server.base_url, api_key=tinker_server.key)


@pytest.fixture
def training(service: Any, tinker_server: TinkerServer) -> Any:
    return made(service.create_lora_training_client(str(tinker_server.model), rank=4, seed=0))


@pytest.fixture
def sampler(service: Any, tinker_server: TinkerServer) -> Any:
    return made(service.create_sampling_client(base_model=str(tinker_server.model)))


def post(server: TinkerServer, body: bytes) -> Any:
    headers = {"X-API-Key": server.key, "Content-Type": "application/x-protobuf"}
    return httpx.post(f"{server.base_url}/api/v1/forward_backward", content=body, headers=headers)


def test_a_closed_session_leaves_no_model(tinker_server: TinkerServer) -> None:
    with tinker.ServiceClient(base_url=tinker_server.base_url, api_key=tinker_server.key) as service:
        training = made(service.create_lora_training_client(str(tinker_server.model), rank=4))
        model_id = training.model_id
        path = training.save_state("kept").result().path
    headers = {"X-API-Key": tinker_server.key}
    about = httpx.post(f"{tinker_server.base_url}/api/v1/get_info", json={"model_id": model_id}, headers=headers)
    assert about.status_code == 404
    other = tinker.ServiceClient(base_url=tinker_server.base_url, api_key=tinker_server.key)
    assert made(other.create_training_client_from_state(path)).model_id != model_id


def test_a_model_from_a_checkpoint_has_its_rank(service: Any, training: Any) -> None:
    path = training.save_state("kept").result().path
    resumed = made(service.create_training_client_from_state_with_optimizer(path))
    assert resumed.get_info().lora_rank == 4
    with pytest.raises(tinker.NotFoundError, match="no checkpoint"):
        made(service.create_training_client_from_state("tinker://nobody:train:0/weights/none"))


def test_a_checkpoint_is_replaced_where_that_is_asked_for(training: Any, tinker_server: TinkerServer) -> None:
    first = training.save_state("kept").result().path
    inputs = {"target_tokens": [*PROMPT[1:], 7], "weights": [1.0] * len(PROMPT)}
    training.forward_backward([tinker.Datum(model_input=TEXT, loss_fn_inputs=inputs)], "cross_entropy").result()
    training.optim_step(tinker.AdamParams(learning_rate=0.01)).result()
    assert training.save_state("kept", overwrite=True).result().path == first
    rows = [row for row in tinker_server.records("save_weights") if row["model_id"] == training.model_id]
    assert [row["step"] for row in rows] == [0, 1]


def test_every_sample_has_an_identity_and_a_suffix_of_a_prompt_can_be_scored(sampler: Any) -> None:
    params = tinker.SamplingParams(max_tokens=2, seed=1)
    whole = sampler.sample(TEXT, 2, params, include_prompt_logprobs=True, topk_prompt_logprobs=2).result()
    assert len({each.sequence_id for each in whole.sequences}) == 2
    last = sampler.sample(
        TEXT, 1, params, include_prompt_logprobs=True, topk_prompt_logprobs=2, prompt_logprobs_last_n=3
    ).result()
    assert last.prompt_logprobs[:5] == [None] * 5
    assert last.prompt_logprobs[5:] == pytest.approx(whole.prompt_logprobs[5:], abs=1e-5)
    assert last.topk_prompt_logprobs[-1] == whole.topk_prompt_logprobs[-1]
    with pytest.raises(tinker.BadRequestError, match="prompt_logprobs_last_n must be from 1 to 7"):
        sampler.sample(TEXT, 1, params, include_prompt_logprobs=True, prompt_logprobs_last_n=8).result()


@pytest.mark.parametrize("feature", [{"topk_sample_logprobs": 2}, {"prompt_alt_tokens_k": 2}])
def test_what_is_not_computed_is_refused(sampler: Any, feature: dict[str, int]) -> None:
    with pytest.raises(tinker.BadRequestError, match=f"{next(iter(feature))} is not supported"):
        sampler.sample(TEXT, 1, tinker.SamplingParams(max_tokens=1), **feature).result()


def test_another_optimizer_is_refused(service: Any, training: Any, tinker_server: TinkerServer) -> None:
    with pytest.raises(tinker.BadRequestError, match="the optimizer dimuon is not supported"):
        made(
            service.create_lora_training_client(
                str(tinker_server.model), optimizer=tinker.types.DimuonOptimizerConfig()
            )
        )
    with pytest.raises(tinker.BadRequestError, match="inflight are not supported"):
        made(training.save_weights_and_get_sampling_client(kind="inflight"))


def test_numbers_that_are_none_come_back_as_such(training: Any) -> None:
    inputs = {"target_tokens": [*PROMPT[1:], 7], "weights": [math.nan] * len(PROMPT)}
    done = training.forward([tinker.Datum(model_input=TEXT, loss_fn_inputs=inputs)], "cross_entropy").result()
    assert math.isnan(done.metrics["loss:sum"])
    assert len(done.loss_fn_outputs[0]["logprobs"].data) == len(PROMPT)


def test_bodies_that_are_no_request_are_the_clients_mistake(training: Any, tinker_server: TinkerServer) -> None:
    from tinker.proto import tinker_public_pb2 as messages

    def request() -> Any:
        made_request = messages.ForwardBackwardRequest(model_id=training.model_id, seq_id=50, loss_fn="cross_entropy")
        made_request.data.add().model_input.add().encoded_text.tokens = b"\x01\x00\x00\x00"
        return made_request

    image, odd, sparse, shape, dtype, text = (request() for _ in range(6))
    image.data[0].model_input.add().image.data = b"GIF"
    odd.data[0].model_input[0].encoded_text.tokens = b"\x01\x00\x00"
    sparse.data[0].loss_fn_inputs["weights"].sparse_csr.values = b"\x00"
    shape.data[0].loss_fn_inputs["weights"].CopyFrom(messages.Tensor(dtype=1, dense=b"\x00" * 8, shape=[1 << 40]))
    dtype.data[0].loss_fn_inputs["weights"].dense = b"\x00" * 4
    text.loss_fn_config_v2["beta"].text = "large"
    for body, said in (
        (b"\xff\xff\xff", "not a ForwardBackwardRequest"),
        (image.SerializeToString(), "only text"),
        (odd.SerializeToString(), "3 bytes are not a whole number of values of 4 bytes"),
        (sparse.SerializeToString(), "sparse tensors are not supported"),
        (shape.SerializeToString(), "2 values do not have the shape"),
        (dtype.SerializeToString(), "float32 or int64"),
        (text.SerializeToString(), "does not take a text as beta"),
        (b"", "there is no model"),
    ):
        answer = post(tinker_server, body)
        assert answer.status_code in (400, 404), (body, answer.text)
        assert said in answer.json()["detail"]
