"""The Tinker server keeps to the protocol: keys, names, futures, checkpoints, and whatever happens to its clients."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

httpx: Any = pytest.importorskip("httpx", reason="not installed: httpx (make test-art)")
tinker: Any = pytest.importorskip("tinker", reason="not installed: tinker (make test-art)")

from tests.support.tinker_server.process import TinkerServer, made, running_server  # noqa: E402

# Versions of the SDK from 0.3x on: data and results as protocol buffers, futures of clients, other saves.
LATER = hasattr(tinker, "RestClient")
PROMPT = [1, 40, 41, 42, 43, 2, 50, 51]
EXAMPLE = {
    "model_input": {"chunks": [{"type": "encoded_text", "tokens": PROMPT}]},
    "loss_fn_inputs": {
        "target_tokens": {"data": [*PROMPT[1:], 7], "dtype": "int64"},
        "weights": {"data": [1.0] * len(PROMPT), "dtype": "float32"},
    },
}


def client_of(server: TinkerServer, **options: Any) -> Any:
    service = tinker.ServiceClient(base_url=server.base_url, api_key=server.key)
    return made(service.create_lora_training_client(str(server.model), **{"rank": 4, "seed": 0, **options}))


def datum(**changes: Any) -> Any:
    inputs = {"target_tokens": [*PROMPT[1:], 7], "weights": [1.0] * len(PROMPT), **changes}
    return tinker.Datum(model_input=tinker.ModelInput.from_ints(PROMPT), loss_fn_inputs=inputs)


def step(client: Any) -> Any:
    """One step; what was said of its loss."""
    computed = client.forward_backward([datum()], "cross_entropy")
    client.optim_step(tinker.AdamParams(learning_rate=0.01)).result()
    return computed.result().metrics


@contextmanager
def http(server: TinkerServer, **headers: str) -> Iterator[Any]:
    """Speaks to a server without the SDK."""
    with httpx.Client(base_url=f"{server.base_url}/api/v1", headers={"X-API-Key": server.key, **headers}) as client:
        yield client


def test_a_model_it_does_not_have_is_refused_at_once(tinker_server: TinkerServer) -> None:
    service = tinker.ServiceClient(base_url=tinker_server.base_url, api_key=tinker_server.key)
    with pytest.raises(tinker.BadRequestError, match="Qwen/Qwen3-8B is not supported"):
        made(service.create_lora_training_client("Qwen/Qwen3-8B"))
    with pytest.raises(tinker.BadRequestError, match="Qwen/Qwen3-8B is not supported"):
        made(service.create_sampling_client(base_model="Qwen/Qwen3-8B"))
    with pytest.raises(tinker.NotFoundError, match="no checkpoint"):
        made(service.create_sampling_client(model_path="tinker://nobody:train:0/sampler_weights/none"))


@pytest.mark.parametrize(
    ("given", "loss_fn", "config", "complaint"),
    [
        (datum(), "importance_sampling", None, "takes .*'advantages'"),
        (
            datum(mask=tinker.TensorData(data=[1.0] * 8, dtype="float32", shape=[8])),
            "cross_entropy",
            None,
            "not .*'mask'",
        ),
        (datum(weights=[1.0] * 7), "cross_entropy", None, r"weights has the shape \[7\]"),
        (datum(target_tokens=[100_000] * 8), "cross_entropy", None, "tokens must be from 0 to"),
        (datum(), "cross_entropy", {"beta": 1.0}, "does not take .*'beta'"),
    ],
)
def test_what_cannot_be_trained_is_the_clients_mistake_and_changes_nothing(
    tinker_server: TinkerServer, given: Any, loss_fn: str, config: dict[str, float] | None, complaint: str
) -> None:
    client = client_of(tinker_server)
    with pytest.raises(tinker.RequestFailedError, match=complaint) as failed:
        client.forward_backward([datum(), given], loss_fn, config).result()
    assert failed.value.category == "user"
    assert client.optim_step(tinker.AdamParams()).result().metrics == {"unclipped_grad_l2:mean": 0.0}


def test_a_request_sent_twice_is_done_once(tinker_server: TinkerServer) -> None:
    client = client_of(tinker_server)
    body = {
        "model_id": client.model_id,
        "seq_id": 1,
        "forward_backward_input": {"data": [EXAMPLE], "loss_fn": "cross_entropy"},
    }
    with http(tinker_server) as raw:
        futures = [raw.post("/forward_backward", json=body).json() for _ in range(3)]
        assert futures[0] == futures[1] == futures[2]
        answers = [raw.post("/retrieve_future", json=future | {"model_id": None}) for future in futures]
        retrieved = [raw.post("/retrieve_future", json={"request_id": futures[0]["request_id"]}).json() for _ in "12"]
    assert {answer.status_code for answer in answers} == {422}, "the SDK sends nothing else than its own fields"
    assert retrieved[0] == retrieved[1]
    rows = [row for row in tinker_server.records("forward_backward") if row["model_id"] == client.model_id]
    assert len(rows) == 1


def test_a_future_that_takes_longer_is_asked_for_again(untrained_policy: Path, tmp_path: Path) -> None:
    with running_server(untrained_policy, tmp_path / "record", "--poll-seconds", "0.02") as server:
        service = tinker.ServiceClient(base_url=server.base_url, api_key=server.key)
        sampler = made(service.create_sampling_client(base_model=str(server.model)))
        body = {
            "sampling_session_id": sampler._sampling_session_id,
            "seq_id": 1_000,
            "num_samples": 16,
            "prompt": EXAMPLE["model_input"],
            "sampling_params": {"max_tokens": 200},
        }
        with http(server) as raw:
            number = raw.post("/asample", json=body).json()["request_id"]
            early = raw.post("/retrieve_future", json={"request_id": number})
            assert early.status_code == 408
            assert early.json() == {"type": "try_again", "request_id": number, "queue_state": "active"}
            unknown = raw.post("/retrieve_future", json={"request_id": "nobody's"})
            assert unknown.status_code == 410
        # The SDK goes on asking.
        answer = sampler.sample(tinker.ModelInput.from_ints(PROMPT), 8, tinker.SamplingParams(max_tokens=100)).result()
        assert len(answer.sequences) == 8
    # It ended as it should when its standard input did.
    assert server.process.returncode == 0


def test_training_goes_on_from_a_checkpoint_as_if_nothing_had_been(tinker_server: TinkerServer) -> None:
    first = client_of(tinker_server)
    step(first)
    path = first.save_state("kept").result().path
    assert path == f"tinker://{first.model_id}/weights/kept"
    expected = step(first), step(first)

    service = tinker.ServiceClient(base_url=tinker_server.base_url, api_key=tinker_server.key)
    resumed = made(service.create_training_client_from_state_with_optimizer(path))
    assert (step(resumed), step(resumed)) == expected
    reset = made(service.create_training_client_from_state(path))
    # The same weights, but a first step of Adam: not the same second one.
    assert step(reset) == expected[0]
    assert step(reset) != expected[1]
    # It goes back as well, and drops gradients that belonged to other weights.
    first.forward_backward([datum()], "cross_entropy").result()
    first.load_state_with_optimizer(path).result()
    assert (step(first), step(first)) == expected

    weights = [row["weights"] for row in tinker_server.records("optim_step") if row["model_id"] == first.model_id]
    assert weights[1:3] == weights[3:5]


def test_checkpoints_are_listed_as_the_service_names_them(tinker_server: TinkerServer) -> None:
    client = client_of(tinker_server)
    client.save_state("step_000001").result()
    client.save_weights_for_sampler("step_000001").result()
    service = tinker.ServiceClient(base_url=tinker_server.base_url, api_key=tinker_server.key)
    rest = service.create_rest_client()
    listed = rest.list_checkpoints(client.model_id).result().checkpoints
    assert [(each.checkpoint_id, each.checkpoint_type, each.tinker_path) for each in listed] == [
        ("weights/step_000001", "training", f"tinker://{client.model_id}/weights/step_000001"),
        ("sampler_weights/step_000001", "sampler", f"tinker://{client.model_id}/sampler_weights/step_000001"),
    ]
    assert all(each.size_bytes > 1_000 for each in listed)
    about = rest.get_weights_info_by_tinker_path(listed[0].tinker_path).result()
    assert (about.base_model, about.is_lora, about.lora_rank) == (str(tinker_server.model), True, 4)
    with pytest.raises(tinker.NotFoundError):
        rest.list_checkpoints("nobody:train:0").result()


def test_a_name_that_is_taken_is_not_written_over(tinker_server: TinkerServer) -> None:
    client = client_of(tinker_server)
    path = client.save_state("kept").result().path
    step(client)
    if LATER:
        with pytest.raises(tinker.BadRequestError, match="already exists"):
            client.save_state("kept").result()
    else:
        # The SDK takes the refusal for a save that was done before its answer was lost.
        assert client.save_state("kept").result().path == path
    rows = [row for row in tinker_server.records("save_weights") if row["model_id"] == client.model_id]
    assert [row["step"] for row in rows] == [0]


@pytest.mark.parametrize("name", ["../../kept", "..", "", "a/b", "a\nb"])
def test_a_name_cannot_lead_elsewhere(tinker_server: TinkerServer, name: str) -> None:
    body = {"model_id": client_of(tinker_server).model_id, "path": name, "seq_id": 1}
    with http(tinker_server) as raw:
        answer = raw.post("/save_weights", json=body)
        assert answer.status_code == 400
        assert "not a valid name" in answer.json()["detail"]
        path = f"tinker://{body['model_id']}/weights/{name}"
        assert raw.post("/weights_info", json={"tinker_path": path}).status_code == 404


def test_what_does_not_fit_is_not_loaded(tinker_server: TinkerServer) -> None:
    small = client_of(tinker_server, rank=2)
    saved = small.save_weights_for_sampler("sampler").result().path
    for client, path, complaint in (
        (client_of(tinker_server, rank=4), saved, "other trained tensors"),
        (small, saved, "no optimizer state"),
        (small, "tinker://nobody:train:0/weights/none", "there is no checkpoint"),
    ):
        with pytest.raises(tinker.RequestFailedError, match=complaint) as failed:
            client.load_state_with_optimizer(path).result()
        assert failed.value.category == "user"


def test_checkpoints_survive_the_server(untrained_policy: Path, tmp_path: Path) -> None:
    words = ("--state", tmp_path / "state")
    with running_server(untrained_policy, tmp_path / "record", *words) as server:
        client = client_of(server)
        step(client)
        path = client.save_state("kept").result().path
        expected = step(client)
        server.process.kill()
        server.process.wait()
    (tmp_path / "state" / ".saving-unfinished").mkdir()
    with running_server(untrained_policy, tmp_path / "record", *words) as server:
        assert not (tmp_path / "state" / ".saving-unfinished").exists()
        service = tinker.ServiceClient(base_url=server.base_url, api_key=server.key)
        assert step(made(service.create_training_client_from_state_with_optimizer(path))) == expected


def test_who_may_read_a_checkpoint_is_what_the_umask_says(tmp_path: Path) -> None:
    from sandrl.trainers.tinker.checkpoints import Checkpoints
    from sandrl.trainers.tinker.options import AdapterConfig

    mask = os.umask(0o027)
    try:
        Checkpoints(tmp_path).save("tinker://run/weights/name", b"weights", "base", AdapterConfig(rank=4))
    finally:
        os.umask(mask)
    modes = [path.stat().st_mode & 0o777 for path in tmp_path.rglob("*/name/*")]
    assert modes == [0o640, 0o640]


KILLED = """
import sys, tinker
model = sys.argv[1]
service = tinker.ServiceClient()
made = lambda client: client.result() if hasattr(client, "result") else client
client = made(service.create_lora_training_client(model, rank=4))
sampler = made(client.save_weights_and_get_sampling_client())
prompt = tinker.ModelInput.from_ints([1, 40, 41])
waiting = [sampler.sample(prompt, 4, tinker.SamplingParams(max_tokens=400)) for _ in range(20)]
waiting[0].result()
print("sampling", flush=True)
for future in waiting:
    future.result()
"""


def test_it_survives_clients_that_are_killed(tinker_server: TinkerServer) -> None:
    argv = [sys.executable, "-c", KILLED, str(tinker_server.model)]
    environment = {**os.environ, **tinker_server.environment}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "sampling\n"
        process.send_signal(signal.SIGKILL)
    assert step(client_of(tinker_server))["loss:sum"] > 0


def test_losses_are_no_numbers_when_that_is_asked_for(untrained_policy: Path, tmp_path: Path) -> None:
    with running_server(untrained_policy, tmp_path / "record", "--nan-after", "1") as server:
        client = client_of(server)
        assert step(client)["loss:sum"] > 0
        assert str(step(client)["loss:sum"]) == "nan"
        sampler = made(client.save_weights_and_get_sampling_client())
        with pytest.raises(tinker.RequestFailedError, match="not finite") as failed:
            sampler.sample(tinker.ModelInput.from_ints(PROMPT), 1, tinker.SamplingParams(max_tokens=1)).result()
        assert failed.value.category == "server"
        # Others are not concerned.
        service = tinker.ServiceClient(base_url=server.base_url, api_key=server.key)
        other = made(service.create_sampling_client(base_model=str(server.model)))
        assert other.compute_logprobs(tinker.ModelInput.from_ints(PROMPT)).result()[1] < 0


def test_all_weights_can_be_trained_instead(untrained_policy: Path, tmp_path: Path) -> None:
    import torch

    state = tmp_path / "state"
    with running_server(untrained_policy, tmp_path / "record", "--full", "--state", state) as server:
        client = client_of(server)
        losses = [step(client)["loss:sum"] for _ in range(3)]
        assert losses == sorted(losses, reverse=True)
        path = client.save_weights_for_sampler("all").result().path
        (saved,) = state.glob("*/sampler_weights/all/content.pt")
        tensors = torch.load(saved, weights_only=True)["tensors"]
        # Every tensor of the model, tied ones once.
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(untrained_policy)
        before = dict(model.named_parameters())
        assert set(tensors) == set(before)
        assert not any(torch.equal(tensors[name], before[name]) for name in before)
        # They are a model that transformers can load, and says of a prompt what the sampler says.
        model.load_state_dict(tensors, strict=False)
        with torch.no_grad():
            logprobs = torch.log_softmax(model(torch.tensor([PROMPT])).logits[0], -1)
        service = tinker.ServiceClient(base_url=server.base_url, api_key=server.key)
        scored = made(service.create_sampling_client(model_path=path)).compute_logprobs(
            tinker.ModelInput.from_ints(PROMPT)
        )
        expected = [logprobs[place, token].item() for place, token in enumerate(PROMPT[1:])]
        assert scored.result()[1:] == pytest.approx(expected, abs=1e-4)
