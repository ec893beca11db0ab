"""The environment for SkyRL-Gym: one step scores an answer and ends the episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from sandrl.errors import InputError
from sandrl.integrations.request import RewardRequest, metrics_of


class CodeEnv(BaseTextEnv):  # type: ignore[misc] # the framework is not there for the type checker
    """Scores the answer of an episode.

    Its options are `problems` (the set that names are found in), `service` and `token`, or `sandboxes` (fields of a
    `SandboxRequest`), `unscorable` ('raise', or the number that a completion without a reward gets), and the options of
    scoring: `reward`, `timeout_seconds`, ….

    Args:
        env_config: Options, which SkyRL takes from `environment.skyrl_gym.sandrl` of its configuration.
        extras: The row: `reward_spec.ground_truth` is the name of a problem, tests or a row of a problem, as
            `sandrl.integrations.verl.compute_score` takes them. Of `extra_info`, a `prompt` is what the model is asked.
        options: Options as they were registered; those of `env_config` come first.

    Raises:
        InputError: If the row has no ground truth.
        UsageError: If an option is impossible.
    """

    def __init__(
        self, env_config: Mapping[str, Any] | None = None, extras: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        super().__init__()
        row = extras or {}
        spec = row.get("reward_spec")
        if not isinstance(spec, Mapping) or "ground_truth" not in spec:
            raise InputError("is missing", path="extras", field="reward_spec.ground_truth")
        info = row.get("extra_info")
        self._truth = spec["ground_truth"]
        self._prompt = str(info.get("prompt") or "") if isinstance(info, Mapping) else ""
        self._request = RewardRequest.of({**options, **(env_config or {})})
        self._metrics: dict[str, Any] = {}

    def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """Begins the episode."""
        self.turns = 0
        self._prompt = self._prompt or "\n\n".join(each["content"] for each in prompt if each.get("role") == "user")
        return prompt, {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Scores the answer.

        Raises:
            InfrastructureError: If it has no reward, and `unscorable` is 'raise'.
            InputError: If the ground truth is not a valid problem.
            ServiceError: If there is no runtime, or the service does not answer.
        """
        self.turns += 1
        result = self._request.submit(self._truth, action, self._prompt).result()
        self._metrics = metrics_of(result)
        reward = self._request.reward(result)
        metadata = {**self._metrics, "status": result.status.value, "detail": result.detail}
        return BaseTextEnvStepOutput(observations=[], reward=reward, done=True, metadata=metadata)

    def get_metrics(self) -> dict[str, Any]:
        """Metrics that SkyRL averages over episodes: `passed`, `checks_passed` and `unscorable`."""
        return self._metrics
