"""The resources server for NeMo-Gym: its `/verify` scores the answer of an episode in sandboxes."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import HTTPException
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from pydantic import ConfigDict, Field

from sandrl.errors import InputError, ServiceError
from sandrl.events.results import Status
from sandrl.integrations.request import RewardRequest, metrics_of

__all__ = ["CodeServer"]

# What keeps a row out of NeMo-Gym's results; only the first kind runs again with `resume_from_cache`.
_TRANSIENT = {"_ng_failure_class": "transient"}
_SKIPPED = {"_ng_failure_class": "skipped", "_ng_failure_terminal": True}


class CodeServerConfig(BaseResourcesServerConfig):  # type: ignore[misc] # the framework is not there for the type checker
    """The server in a configuration of NeMo-Gym; the token of a service is in SANDRL_SERVICE_TOKEN."""

    problems: str | None = None
    """The set that names are found in; that of SANDRL_PROBLEMS unless given."""
    service: str | None = None
    """Address of a `sandrl serve` that scores, instead of sandboxes of this process."""
    sandboxes: dict[str, Any] | None = None
    """Fields of a `SandboxRequest`: which sandboxes of this process."""
    unscorable: str | float = "raise"
    """The result for a completion without a reward: an error, or this number in a row that counts as a failure."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The options of scoring: `reward`, `timeout_seconds`, …."""


class CodeVerifyRequest(BaseVerifyRequest):  # type: ignore[misc]
    """An answer, and the row that it answers."""

    model_config = ConfigDict(extra="allow")

    verifier_metadata: dict[str, Any]
    """`ground_truth` (the name of a problem, tests, or a row of one), or `unit_tests` as in rows of `code_gen`."""


class CodeVerifyResponse(BaseVerifyResponse):  # type: ignore[misc]
    """The reward, with metrics that NeMo-Gym averages."""

    model_config = ConfigDict(extra="allow")

    passed: float
    checks_passed: float
    unscorable: float
    status: str
    detail: str | None


class CodeServer(SimpleResourcesServer):  # type: ignore[misc]
    """Scores answers that are code: the `app.py` of a resources server calls `CodeServer.run_webserver()`.

    Raises:
        UsageError: If an option is impossible.
    """

    config: CodeServerConfig

    def model_post_init(self, context: Any) -> None:
        config = self.config
        given = {name: getattr(config, name) for name in ("problems", "service", "sandboxes", "unscorable")}
        self._request = RewardRequest.of({**config.options, **given})

    async def verify(self, body: CodeVerifyRequest) -> CodeVerifyResponse:
        """Scores the text of the last response.

        Raises:
            HTTPException: With status 503 if it has no reward because sandboxes or the service failed; with status 422
                if its row is not a valid problem.
        """
        request = self._request
        try:
            # A problem may have to be loaded, and a runtime started.
            scoring = await asyncio.to_thread(
                request.submit, _truth(body.verifier_metadata), body.response.output_text, _prompt(body)
            )
            result = await asyncio.wrap_future(scoring)
            reward = request.reward(result)
        except InputError as error:
            raise HTTPException(422, str(error)) from error
        except ServiceError as error:
            raise HTTPException(503, str(error)) from error
        is_lost = result.status is Status.INFRASTRUCTURE
        failure = {} if result.reward is not None else _TRANSIENT if is_lost else _SKIPPED
        return CodeVerifyResponse(
            **body.model_dump(),
            **metrics_of(result),
            **failure,
            reward=reward,
            status=result.status.value,
            detail=result.detail,
        )


def _truth(metadata: dict[str, Any]) -> object:
    for name in ("ground_truth", "unit_tests"):
        if metadata.get(name) is not None:
            return metadata[name]
    raise InputError("has neither ground_truth nor unit_tests", field="verifier_metadata")


def _prompt(body: CodeVerifyRequest) -> str:
    asked = body.responses_create_params.input
    if isinstance(asked, str):
        return asked
    texts = (getattr(each, "content", None) for each in asked if getattr(each, "role", None) == "user")
    return "\n\n".join(text for text in texts if isinstance(text, str))
