"""Generation with vLLM as far as no GPU allows: what reaches TRL, what TRL's client sends, and what is refused."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import HardwareError, MissingExtraError, SandrlError, ServiceError, UsageError
from sandrl.models import libraries
from sandrl.models.generation import keep_neutral
from sandrl.trainers.arguments import trl_arguments
from sandrl.trainers.config import resolve, splits_of

# Those of libraries are not ours.
pytestmark = pytest.mark.filterwarnings("ignore")


class Server:
    """A server with the routes of vLLM's that TRL asks, which answers each prompt with the token 5.

    Attributes:
        address: Where it is.
        asked: What it was asked to sample.
    """

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                config = {"vllm_config": {"model_config": {"logprobs_mode": "processed_logprobs"}}}
                answers = {"/health": {}, "/v1/models": {"data": [{"id": "policy"}]}, "/server_info": config}
                self._answer(answers.get(self.path.partition("?")[0]))

            def do_POST(self) -> None:
                payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked.append(payload)
                logprobs = {"tokens": ["token_id:5"], "token_logprobs": [-0.5], "top_logprobs": [None]}
                choices = [
                    {"prompt_token_ids": prompt, "token_ids": [5], "logprobs": logprobs}
                    for prompt in payload["prompt"]
                    for _ in range(payload["n"])
                ]
                self._answer({"choices": choices})

            def _answer(self, content: object) -> None:
                self.send_response(404 if content is None else 200)
                self.end_headers()
                self.wfile.write(json.dumps(content).encode())

            def log_message(self, *words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server()
    yield served
    served.server.shutdown()
    served.server.server_close()


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were a GPU and vLLM."""
    monkeypatch.setattr(libraries, "has_gpu", lambda: True)
    found = ModuleSpec("vllm", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found if name == "vllm" else find_spec(name))


def arguments_of(world_size: int = 1, **given: Any) -> Any:
    # TRL's configuration refuses 16 bits where torch finds no GPU.
    words: dict[str, Any] = {"problems": "toy", "batch_size": 8, "samples": 4, **given}
    words["set"] = {"bf16": False, **given.get("set", {})}
    config = resolve(words)
    return trl_arguments(config, splits_of(config), world_size=world_size)


def test_the_server_and_its_address_reach_trl(on_gpu: None, server: Server) -> None:
    arguments = arguments_of(vllm="server", vllm_server_url=server.address, set={"vllm_server_timeout": 7.0})
    assert (arguments.use_vllm, arguments.vllm_mode) == (True, "server")
    assert (arguments.vllm_server_base_url, arguments.vllm_server_timeout) == (server.address, 7.0)
    port = server.server.server_port
    arguments = arguments_of(vllm="server", set={"vllm_server_host": "127.0.0.1", "vllm_server_port": port})
    assert (arguments.vllm_server_base_url, arguments.vllm_server_port) == (None, port)


def test_vllm_on_the_gpu_that_trains_and_its_fields_reach_trl(on_gpu: None) -> None:
    fields = {"vllm_gpu_memory_utilization": 0.4, "vllm_tensor_parallel_size": 2, "vllm_enable_sleep_mode": True}
    arguments = arguments_of(2, vllm="colocate", set=fields)
    assert (arguments.use_vllm, arguments.vllm_mode, arguments.vllm_server_base_url) == (True, "colocate", None)
    assert {name: getattr(arguments, name) for name in fields} == fields
    assert not arguments_of().use_vllm


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"set": {"vllm_group_port": 1}}, UsageError, "set 'vllm_group_port': has no effect without vllm server"),
        (
            {"vllm": "colocate", "set": {"vllm_server_port": 1}},
            UsageError,
            "set 'vllm_server_port': has no effect without vllm server",
        ),
        (
            {"vllm": "server", "set": {"vllm_gpu_memory_utilization": 0.4}},
            UsageError,
            "set 'vllm_gpu_memory_utilization': has no effect without vllm colocate",
        ),
        (
            {"vllm": "colocate", "set": {"vllm_tensor_parallel_size": 2}},
            UsageError,
            "set vllm_tensor_parallel_size=2: is not a divisor of 1 processes",
        ),
        (
            {"vllm": "colocate", "set": {"generation_kwargs": {"typical_p": 0.5}}},
            UsageError,
            "set generation_kwargs: vLLM does not support typical_p",
        ),
        ({"vllm": "colocate", "set": {"use_vllm": True}}, UsageError, "set 'use_vllm': sandrl sets this field itself"),
        (
            {"vllm": "server", "vllm_server_url": "http://127.0.0.1:9"},
            ServiceError,
            "no vLLM server answers at http://127.0.0.1:9",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_a_run(
    on_gpu: None, given: dict[str, Any], kind: type[SandrlError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        arguments_of(**given)
    assert caught.value.message.startswith(message)


def test_without_a_gpu_or_without_vllm_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HardwareError, match="vllm needs a GPU, and torch detects no GPU"):
        arguments_of(vllm="server")
    monkeypatch.setattr(libraries, "has_gpu", lambda: True)
    with pytest.raises(MissingExtraError, match="the package 'vllm' is not installed"):
        arguments_of(vllm="colocate")


def test_vllm_is_sent_the_neutral_sampling_whatever_the_model_prescribes(
    server: Server, tiny_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of vLLM takes what a request leaves out from the model's own generation settings."""
    import datasets
    import trl
    from trl.generation import vllm_client, vllm_generation

    for module in (vllm_client, vllm_generation):
        monkeypatch.setattr(module, "is_vllm_available", lambda: True)
    # Weights travel between GPUs.
    monkeypatch.setattr(vllm_client.VLLMClient, "init_communicator", lambda *words, **named: None)
    policy = tmp_path / "policy"
    shutil.copytree(tiny_directory, policy)
    own = {"repetition_penalty": 1.3, "top_k": 7, "top_p": 0.5, "min_p": 0.2, "temperature": 0.3}
    settings = json.loads((policy / "generation_config.json").read_text("utf-8"))
    (policy / "generation_config.json").write_text(json.dumps({**settings, **own}), encoding="utf-8")

    def asked(**chosen: Any) -> dict[str, Any]:
        config = resolve({"problems": "toy", "batch_size": 8, "samples": 4, "max_tokens": 9, "set": chosen})
        arguments = trl_arguments(config, splits_of(config), world_size=1)
        arguments.use_vllm, arguments.vllm_mode = True, "server"
        arguments.vllm_server_base_url, arguments.output_dir = server.address, str(tmp_path)
        rows = datasets.Dataset.from_list([{"prompt": "f"}] * 2)
        trainer = trl.GRPOTrainer(
            model=str(policy), reward_funcs=lambda completions, **_: [0.0] * len(completions), args=arguments,
            train_dataset=rows,
        )  # fmt: skip
        keep_neutral(trainer, own, chosen)
        trainer.vllm_generation.generate(prompts=[[1, 2]] * 4, images=None, num_generations=4)
        return server.asked.pop()

    sent = asked()
    neutral = {"repetition_penalty": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0, "max_tokens": 9}
    assert {name: sent.get(name) for name in neutral} == neutral
    assert asked(repetition_penalty=1.1)["repetition_penalty"] == 1.1
