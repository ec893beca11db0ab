"""`sandrl tinker serve`: a service for other programs, with a key, on this machine alone, and within bounds."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

httpx: Any = pytest.importorskip("httpx", reason="not installed: httpx (make test-art)")
tinker: Any = pytest.importorskip("tinker", reason="not installed: tinker (make test-art)")

from sandrl.settings import load_settings  # noqa: E402
from tests.support.tinker_serve import Served, served  # noqa: E402
from tests.support.tinker_server.process import made  # noqa: E402

pytestmark = pytest.mark.timeout(600)

PROMPT = [1, 40, 41, 42, 43, 2, 50, 51]


def datum(weight: float = 1.0) -> Any:
    inputs = {"target_tokens": [*PROMPT[1:], 7], "weights": [weight] * len(PROMPT)}
    return tinker.Datum(model_input=tinker.ModelInput.from_ints(PROMPT), loss_fn_inputs=inputs)


def status_of_a_huge_body(service: Served, *, says_so: bool) -> int:
    """The answer to a request whose body is too large.

    Args:
        service: The service.
        says_so: Whether the request says that it has a terabyte, and sends nothing of it; else it sends and sends.
    """
    address = urlsplit(service.url)
    connection = HTTPConnection(str(address.hostname), address.port, timeout=30)
    connection.putrequest("POST", "/api/v1/telemetry")
    connection.putheader("X-API-Key", service.key)
    connection.putheader("Content-Type", "application/json")
    connection.putheader(*(("Content-Length", str(1 << 40)) if says_so else ("Transfer-Encoding", "chunked")))
    connection.endheaders()
    try:
        for _ in range(0 if says_so else 65):
            connection.send(b"100000\r\n" + b" " * (1 << 20) + b"\r\n")
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_service_has_a_key_of_its_own_that_is_gone_with_it(tmp_path: Path) -> None:
    with served(tmp_path) as service:
        assert service.url.startswith("http://127.0.0.1:")
        assert service.key.startswith("tml-")
        assert stat.S_IMODE(Path(service.key_place).stat().st_mode) == 0o600
        assert service.key.encode() not in Path(f"/proc/{service.process.pid}/cmdline").read_bytes()
        with httpx.Client(base_url=f"{service.url}/api/v1") as nobody:
            assert nobody.get("/healthz").json()["status"] == "ok"
            for path in ("/get_server_capabilities", "/docs", "/openapi.json"):
                assert nobody.get(path).status_code == 401
            assert nobody.get("/get_server_capabilities", headers={"X-API-Key": "tml-x"}).status_code == 401
            with_key = {"X-API-Key": service.key}
            assert nobody.get("/nothing", headers=with_key).status_code == 404
        with pytest.raises(tinker.AuthenticationError):
            # Later versions of the SDK ask when they are used.
            tinker.ServiceClient(base_url=service.url, api_key="tml-of-someone-else").get_server_capabilities()
        assert status_of_a_huge_body(service, says_so=True) == 413
        assert status_of_a_huge_body(service, says_so=False) == 413
        names = [each.model_name for each in service.client.get_server_capabilities().supported_models]
        assert names == [service.model, "tiny"]
        training = made(service.client.create_lora_training_client("tiny", rank=4))
        before = training.forward_backward([datum()], "cross_entropy").result().metrics["loss:sum"]
        training.optim_step(tinker.AdamParams(learning_rate=0.01)).result()
        assert training.forward([datum()], "cross_entropy").result().metrics["loss:sum"] < before
        code, said = service.end()
        assert code == 0
        assert "export TINKER_BASE_URL=" in said
        assert service.key not in said
        assert not Path(service.key_place).exists()


def test_two_services_do_not_share_a_state_directory(tmp_path: Path) -> None:
    with served(tmp_path) as service:
        done = subprocess.run(
            [sys.executable, "-m", "sandrl", "tinker", "serve", "--port", "0"],
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "TINKER_API_KEY": "",
                "SANDRL_STATE_DIR": str(tmp_path),
                "SANDRL_CACHE_DIR": str(load_settings().cache_dir),
            },
            timeout=120,
        )
        assert done.returncode == 2
        assert "is in use by another Tinker service" in done.stderr
        assert service.client.get_server_capabilities().supported_models


def test_a_key_of_ones_own_is_taken_from_the_environment(tmp_path: Path) -> None:
    with served(tmp_path, TINKER_API_KEY="tml-of-my-own") as service:
        assert service.key_place == "TINKER_API_KEY"
        assert service.client.get_server_capabilities().supported_models
        _, said = service.end()
        assert "tml-of-my-own" not in said


def test_requests_beyond_the_queue_are_sent_again_and_none_is_lost(tmp_path: Path) -> None:
    with served(tmp_path, "--max-queue", "2", "--seed", "5") as service:
        sampler = made(service.client.create_sampling_client(base_model="tiny"))
        params = tinker.SamplingParams(max_tokens=8, temperature=1.0)
        prompt = tinker.ModelInput.from_ints(PROMPT)

        def ask(_: int) -> int:
            return len(sampler.sample(prompt, 1, params).result().sequences[0].tokens)

        with ThreadPoolExecutor(40) as threads:
            assert all(threads.map(ask, range(120)))


def test_only_the_latest_samplers_without_a_name_are_kept(tmp_path: Path) -> None:
    from sandrl.trainers.tinker.service import SAMPLERS_KEPT

    with served(tmp_path, "--lora") as service:
        training = made(service.client.create_lora_training_client("tiny", rank=4))
        samplers = [made(training.save_weights_and_get_sampling_client()) for _ in range(SAMPLERS_KEPT + 1)]
        files = list((tmp_path / "tinker" / ".samplers").iterdir())
        assert len(files) == SAMPLERS_KEPT
        params = tinker.SamplingParams(max_tokens=4)
        assert samplers[-1].sample(tinker.ModelInput.from_ints(PROMPT), 1, params).result().sequences
        with pytest.raises(tinker.APIStatusError, match=r"there is no sampler|are gone"):
            samplers[0].sample(tinker.ModelInput.from_ints(PROMPT), 1, params).result()
        service.end()
    # What has no name does not outlive the service.
    with served(tmp_path):
        assert not (tmp_path / "tinker" / ".samplers").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--host", "0.0.0.0"), "--host: is '0.0.0.0', and must be a loopback address, such as 127.0.0.1"),
        (("--model", "/nonexistent"), "there is no model '/nonexistent'"),
        (("--port", "PORT"), "cannot listen on host 127.0.0.1 port"),
        (("--state", "FILE"), "cannot be created"),
        (("--max-queue", "0"), "--max-queue"),
    ],
)
def test_what_cannot_be_served_is_one_clear_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "file").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        places = {"PORT": str(taken.getsockname()[1]), "FILE": str(tmp_path / "file")}
        done = subprocess.run(
            [sys.executable, "-m", "sandrl", "tinker", "serve", *(places.get(word, word) for word in words)],
            capture_output=True,
            text=True,
            env={**os.environ, "TINKER_API_KEY": "", "SANDRL_STATE_DIR": str(tmp_path / "state")},
            timeout=120,
        )
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_all_weights_are_trained_where_that_is_said(tmp_path: Path) -> None:
    with served(tmp_path, "--no-lora") as service:
        training = made(service.client.create_lora_training_client("tiny", rank=4))
        training.forward_backward([datum()], "cross_entropy").result()
        training.optim_step(tinker.AdamParams(learning_rate=0.01)).result()
        training.save_state("all").result()
        torch = pytest.importorskip("torch")
        (content,) = (tmp_path / "tinker").glob("*/weights/all/content.pt")
        names = set(torch.load(content, weights_only=True)["tensors"])
        assert any(name.endswith("embed_tokens.weight") for name in names)
        assert not any(name.endswith(".A") for name in names)
