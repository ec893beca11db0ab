"""Which backend, which model and whose episodes a training with ART has where nothing is said."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandrl.config.art import ArtBackendKind, ArtPolicy, choose_backend
from sandrl.config.episodes import RolloutConfig
from sandrl.config.layers import resolve
from sandrl.config.tinker import TinkerServeConfig
from sandrl.errors import UsageError
from sandrl.settings import Settings
from sandrl.trainers.art import plan, playing
from sandrl.trainers.art.plan import make_request, resolve_art
from sandrl.trainers.art.service import renderer_name

BARE = Settings(state_dir=Path("/nonexistent/state"), cache_dir=Path("/nonexistent/cache"))
KEY = replace(BARE, tinker_api_key="tml-x", tinker_api_key_source="TINKER_API_KEY")
ADDRESS = replace(BARE, tinker_base_url="http://127.0.0.1:1")
TEACHER = replace(BARE, openai_api_key="sk-x")


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "can_train_here", lambda: False)


@pytest.mark.parametrize(
    ("requested", "settings", "has_gpu", "kind", "reason"),
    [
        ("auto", BARE, False, "embedded", "no key is set"),
        ("auto", BARE, True, "local", "this machine has a GPU"),
        ("auto", KEY, False, "tinker", "TINKER_API_KEY is set"),
        ("auto", KEY, True, "local", "this machine has a GPU"),
        ("auto", ADDRESS, False, "tinker", "TINKER_BASE_URL is set"),
        ("tinker", BARE, True, "embedded", "no key is set"),
        ("tinker", KEY, True, "tinker", "TINKER_API_KEY is set"),
        ("tinker", ADDRESS, False, "tinker", "TINKER_BASE_URL is set"),
        ("embedded", KEY, True, "embedded", "requested"),
        ("local", KEY, False, "local", "requested"),
    ],
)
def test_the_backend_follows_from_what_is_there(
    requested: str, settings: Settings, has_gpu: bool, kind: str, reason: str
) -> None:
    choice = choose_backend(ArtBackendKind(requested), settings, can_train_here=has_gpu)
    assert (choice.kind, choice.reason) == (kind, reason)


def test_an_embedded_service_trains_the_tiny_policy_by_its_own_episodes() -> None:
    config, choice = resolve_art({}, {"backend": "tinker"}, BARE)
    assert choice.reason == "no key is set"
    assert (config.backend, config.base_model, config.policy) == ("embedded", "tiny", "trained")
    assert (config.problems, config.rollout, config.lora, config.is_tiny) == ("tiny", "attempts", False, True)
    assert renderer_name(config) == "qwen3_instruct"
    # A key of a teacher changes nothing here; a teacher that is named does.
    assert resolve_art({}, {}, TEACHER)[0] == config
    taught, _ = resolve_art({}, {"model": "gpt-5.1-codex-mini"}, TEACHER)
    assert (taught.policy, taught.base_model) == (ArtPolicy.TEACHER, "tiny")


def test_another_model_of_an_embedded_service_has_the_usual_defaults() -> None:
    config, _ = resolve_art({"base_model": "/some/model"}, {}, BARE)
    assert (config.backend, config.problems, config.lora, config.policy) == ("embedded", "mbpp", True, "trained")
    assert not config.is_tiny


@pytest.mark.parametrize(
    ("given", "settings", "policy"),
    [
        ({}, KEY, "trained"),
        ({}, replace(KEY, openai_api_key="sk-x"), "teacher"),
        ({}, replace(KEY, openai_base_url="http://127.0.0.1:1/v1"), "teacher"),
        ({"base_url": "http://127.0.0.1:1/v1"}, KEY, "teacher"),
        ({"model": "someone"}, KEY, "teacher"),
        ({"trajectories": "run"}, KEY, "teacher"),
        ({"policy": "trained"}, replace(KEY, openai_api_key="sk-x"), "trained"),
        ({"policy": "teacher"}, KEY, "teacher"),
    ],
)
def test_without_a_teacher_the_model_acts_itself(given: dict[str, Any], settings: Settings, policy: str) -> None:
    config, _ = resolve_art({}, given, settings)
    assert (config.backend, config.base_model, config.policy) == ("tinker", "Qwen/Qwen3-8B", policy)


def test_all_weights_are_for_the_embedded_service_alone() -> None:
    with pytest.raises(UsageError, match="lora: the backend tinker trains adapters only"):
        resolve_art({}, {"lora": False}, KEY)
    assert resolve_art({}, {"lora": True}, BARE)[0].lora


def test_a_word_that_is_no_backend_is_named() -> None:
    with pytest.raises(UsageError, match=r"backend: .* not 'here'"):
        resolve_art({}, {"backend": "here"}, BARE)


def test_a_request_says_why_it_has_its_backend() -> None:
    assert make_request({}, BARE).why == "no key is set"
    assert make_request({"backend": "embedded"}, BARE).why == "requested"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.9.8.7"])
def test_a_service_listens_on_this_machine(host: str) -> None:
    assert resolve(TinkerServeConfig, {"host": host}).host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "0"])
def test_a_service_listens_nowhere_else(host: str) -> None:
    with pytest.raises(UsageError, match=r"must be a loopback address, such as 127\.0\.0\.1"):
        resolve(TinkerServeConfig, {"host": host})


@pytest.fixture
def torch_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing, "_NEEDED", ("os",))


@pytest.mark.usefixtures("torch_is_there")
class TestWhoPlays:
    """Without an endpoint the tiny policy plays."""

    @pytest.fixture
    def port(self, monkeypatch: pytest.MonkeyPatch) -> int:
        """The usual endpoint's port, at which nothing listens."""
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = int(found.getsockname()[1])
        monkeypatch.setattr(playing, "VLLM_BASE_URL", f"http://127.0.0.1:{port}/v1")
        return port

    def test_where_nothing_listens_it_is_the_tiny_policy(self, port: int) -> None:
        request = playing.make_request({}, {"steps": 2}, BARE)
        assert request.why == f"no server answers at http://127.0.0.1:{port}/v1"
        config = request.config
        assert (config.model, config.problems, config.max_tokens, config.steps) == ("tiny", "tiny", 48, 2)

    def test_where_something_listens_it_is_asked(self, port: int) -> None:
        with socket.create_server(("127.0.0.1", port)):
            request = playing.make_request({}, {}, BARE)
        assert request == playing.RolloutRequest(resolve(RolloutConfig))

    @pytest.mark.parametrize(
        ("given", "settings"),
        [
            ({"base_url": "http://127.0.0.1:1/v1"}, BARE),
            ({"base_url": "http://127.0.0.1:1/v1", "model": "tiny"}, BARE),
            ({"use_openai": True}, BARE),
            ({"model": "Qwen/Qwen2.5-3B-Instruct"}, BARE),
            ({}, replace(BARE, openai_base_url="http://127.0.0.1:1/v1")),
        ],
    )
    def test_what_is_named_is_never_replaced(self, port: int, given: dict[str, Any], settings: Settings) -> None:
        assert playing.make_request({}, given, settings).why == ""

    def test_it_can_be_asked_for(self) -> None:
        assert playing.make_request({}, {"model": "tiny"}, BARE).why == "requested"

    def test_it_has_no_tools(self, port: int) -> None:
        with pytest.raises(UsageError, match="supports only `attempts` in this process"):
            playing.make_request({}, {"rollout": "tools"}, BARE)


def test_without_torch_the_usual_endpoint_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing, "_NEEDED", ("os", "no_such_module_anywhere"))
    assert playing.make_request({}, {}, BARE).why == ""
