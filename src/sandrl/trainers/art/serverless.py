"""A model that W&B Training trains, with ART's `ServerlessBackend`.

A step is a job of the service, which continues when this process has ended. So the run keeps the name of a job that it
waits for, and a resumed run waits for that job first: its step is neither lost nor made twice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from sandrl.addresses import check_address, is_of_this_machine, refuse_password
from sandrl.config.art import ArtTrainConfig
from sandrl.errors import AuthenticationError, EndpointError, SandrlError, TrainingError, UsageError
from sandrl.events import Emit, Warned, ignore
from sandrl.files import write_whole
from sandrl.models.endpoint import nearest_names
from sandrl.models.libraries import first_line
from sandrl.sandboxes import delay_seconds
from sandrl.settings import Settings
from sandrl.trainers.art.backend import UNTRAINABLE, StepResult, TrainedModel
from sandrl.trainers.art.groups import Group, count_tokens
from sandrl.trainers.art.libraries import environment, load, model_names
from sandrl.trainers.art.loop import EventLoop

EXTRA = "art-serverless"

BASE_URL = "https://api.training.wandb.ai/v1"
ADDRESS = "WANDB_TRAINING_BASE_URL"
"""The variable that names another address."""

_GRADIENT_STEPS = "data/step_num_gradient_steps"
_JOB = "job.json"
_FAILED = "Training job failed: "
_LATER = "resume the run with --resume once it answers"
_AGAIN = "resume the run with --resume, which makes the step again"
_KEY_HINT = "set WANDB_API_KEY to a key of https://wandb.ai/settings"
_PROBE_SECONDS = 10.0
_POLL_SECONDS, _SUBMIT_SECONDS = 30.0, 600.0
# A job continues while its service cannot be asked. The pauses between two tries grow to 8 s.
_MOST_TRIES = 60
_FIRST_PAUSE_SECONDS = 0.5
# Of a request that the service has not begun to work on.
_NOT_BEGUN = (429, 503)
# No model has it: it stands for one in a request that tests a key.
_NO_MODEL = "00000000-0000-0000-0000-000000000000"
# Of vLLM: the numbers of the tokens, which training needs.
_TOKEN_IDS = {"return_token_ids": True, "return_tokens_as_token_ids": True}


class ServerlessModel(TrainedModel):
    """A model, named after its run, that W&B Training trains; each step is a version of a W&B artifact.

    `path` remembers the job that was begun last. A `new` run must not find a model of its name with steps.

    Raises:
        UsageError: If the service refuses the model, or has trained one of this name before.
        ServiceError: If the service fails, or refuses the key.
    """

    extra = EXTRA

    def __init__(
        self,
        config: ArtTrainConfig,
        settings: Settings,
        *,
        name: str,
        path: Path,
        loop: EventLoop,
        is_new: bool,
        emit: Emit = ignore,
    ) -> None:
        super().__init__(config, loop)
        self.extra_body = _TOKEN_IDS
        self._settings = settings
        self._job = path / _JOB
        self._step = 0
        self._tokens = 0
        art = load("art", extra=EXTRA)
        module: Any = load("art.serverless.backend", extra=EXTRA)
        # Progress is shown by sandrl.
        module.tqdm = SimpleNamespace(tqdm=_NoBar)
        self._openai = load("openai", extra=EXTRA)
        self._backend = module.ServerlessBackend(api_key=settings.wandb_api_key, base_url=serverless_address(settings))
        client = self._backend._client
        client.timeout, client.max_retries = _POLL_SECONDS, _MOST_TRIES
        self._create = client.training_jobs.create
        client.training_jobs.create = self._begin_job
        self._model = art.TrainableModel(
            **model_names(name),
            project=config.project,
            entity=settings.wandb_entity,
            base_model=config.base_model,
            base_path=str(path),
        )
        try:
            with self._translated():
                self._loop.run(self._model.register(self._backend))
                self._step = self._loop.run(self._backend._get_step(self._model))
            if is_new and self._step:
                raise UsageError(
                    f"W&B Training has a model {name!r} with {self._step} steps in the project {config.project!r}",
                    hint="use another run_name or another project",
                    fields=("run_name", "project"),
                )
            self._finish_job(emit)
        except BaseException:
            self.close()
            raise

    @property
    def step(self) -> int:
        return self._step

    @property
    def name(self) -> str:
        # Before the first step there may be no checkpoint to name.
        return str(self._model.get_inference_name(self._step or None))

    def check_alive(self) -> None:
        probe(self._settings, "health")

    def score(self, groups: Sequence[Group], tools: Sequence[Mapping[str, Any]]) -> NoReturn:
        raise NotImplementedError("the configuration refuses `policy` teacher")

    def train(self, groups: Sequence[Group], tools: Sequence[Mapping[str, Any]], *, learning_rate: float) -> StepResult:
        self._tokens = count_tokens(groups)
        with self._translated():
            try:
                result = self._trained(groups, tools, learning_rate=learning_rate)
            except (self._openai.BadRequestError, self._openai.UnprocessableEntityError) as error:
                raise TrainingError(f"W&B Training refuses step {self._step + 1}: {first_line(error)}") from error
        return self._ended(result)

    # What a job of the service did, which needs not be waited for any more.
    def _ended(self, result: Any) -> StepResult:
        self._job.unlink(missing_ok=True)
        self._step = int(result.step)
        metrics = {name: float(value) for name, value in result.metrics.items()}
        return StepResult(self._step, int(metrics.get(_GRADIENT_STEPS, 0)), self._tokens, metrics)

    # Waits for the job of a process that has ended, if it has left one.
    def _finish_job(self, emit: Emit) -> None:
        try:
            known = json.loads(self._job.read_text())
            job, self._tokens = str(known["id"]), int(known["tokens"])
        except FileNotFoundError:
            return
        except (ValueError, TypeError, KeyError) as error:
            raise UsageError(
                f"{self._job} is damaged: the job of the last step cannot be read",
                hint="start a new run under another name",
            ) from error
        emit(Warned(f"waiting for the training job {job} that the interrupted run began"))
        create, self._create = self._create, lambda **_: _known(job)
        try:
            with self._translated():
                # Of the groups that it was given, only the service still knows.
                found = self._ended(self._loop.run(self._backend.train(self._model, [])))
            measured = {name: value for name, value in found.metrics.items() if not name.startswith("data/")}
            self.found = StepResult(found.step, found.gradient_steps, found.tokens, measured)
        except EndpointError as error:
            if self._job.exists():
                raise
            emit(Warned(f"{error.message}; its step is made again"))
        finally:
            self._create = create

    async def _begin_job(self, **question: Any) -> Any:
        job = await self._submitted(question)
        document = {"id": str(job.id), "tokens": self._tokens}
        self._job.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._job, json.dumps(document).encode(), durable=True)
        return job

    async def _submitted(self, question: Mapping[str, Any]) -> Any:
        # ART sends it once, because a job that was begun twice would train twice.
        client = self._backend._client
        client.timeout = _SUBMIT_SECONDS
        try:
            for tries in range(1, _MOST_TRIES):
                try:
                    return await self._create(**question)
                except (self._openai.APIConnectionError, self._openai.APIStatusError) as error:
                    if not _has_not_begun(error):
                        raise
                await asyncio.sleep(delay_seconds(min(tries, 5), _FIRST_PAUSE_SECONDS))
            return await self._create(**question)
        finally:
            client.timeout = _POLL_SECONDS

    @contextmanager
    def _translated(self) -> Iterator[None]:
        openai, place = self._openai, f"W&B Training at {serverless_address(self._settings)}"
        try:
            # Metrics are sandrl's own to report: ART would open a W&B run of its own.
            with environment(WANDB_API_KEY=None):
                yield
        except SandrlError:
            raise
        except openai.AuthenticationError as error:
            raise AuthenticationError(f"{place} refuses the key in WANDB_API_KEY", hint=_KEY_HINT) from error
        except openai.PermissionDeniedError as error:
            raise AuthenticationError(
                f"{place} refuses access: {first_line(error)}",
                hint="check WANDB_ENTITY_NAME and the quota of the account",
            ) from error
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            raise UsageError(
                f"{place} refuses the model: {first_line(error)}",
                hint="check base_model, project and WANDB_ENTITY_NAME",
                fields=("base_model", "project"),
            ) from error
        except openai.NotFoundError as error:
            self._job.unlink(missing_ok=True)
            raise EndpointError(f"{place} has no such model or training job any more", hint=_AGAIN) from error
        except openai.APIConnectionError as error:
            raise EndpointError(f"{place} does not answer", hint=_LATER) from error
        except openai.APIError as error:
            raise EndpointError(f"{place} fails: {first_line(error)}", hint=_LATER) from error
        except (AttributeError, *UNTRAINABLE) as error:
            reason = first_line(error)
            if reason.startswith(_FAILED):
                self._job.unlink(missing_ok=True)
                message = f"the training job of step {self._step + 1} failed: {reason.removeprefix(_FAILED)}"
                raise EndpointError(message, hint=_AGAIN) from error
            raise EndpointError(f"{place} gives an answer that ART cannot read: {reason}", hint=_LATER) from error


class _NoBar:
    def __init__(self, **_: Any) -> None:
        pass

    def update(self, count: int) -> None:
        pass

    def set_postfix(self, values: Any) -> None:
        pass

    def close(self) -> None:
        pass


async def _known(job: str) -> Any:
    return SimpleNamespace(id=job)


def _has_not_begun(error: Exception) -> bool:
    # Whether a request certainly had no effect.
    if (status := getattr(error, "status_code", None)) is not None:
        return status in _NOT_BEGUN
    return type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout")


def serverless_address(settings: Settings) -> str:
    return (settings.wandb_training_base_url or BASE_URL).rstrip("/")


def check_serverless(config: ArtTrainConfig, settings: Settings) -> None:
    """Makes sure, without a request that creates anything, that the service answers, takes the key and has the model.

    Raises:
        AuthenticationError: If there is no key, or the service refuses it.
        UsageError: If the address is none, or the service does not train the model.
        EndpointError: If the service does not answer.
    """
    if settings.wandb_api_key is None:
        raise AuthenticationError(
            "backend serverless needs a W&B API key, and no key is set", hint=_KEY_HINT, fields=("backend",)
        )
    address = serverless_address(settings)
    check_address(address, ADDRESS)
    refuse_password(address, ADDRESS, hint=_KEY_HINT)
    # Older deployments have no such list.
    offered = probe(settings, "preview/base-models")
    names = [name for name in offered if isinstance(name, str)] if isinstance(offered, list) else []
    if names and config.base_model not in names:
        raise UsageError(
            f"W&B Training at {address} has no model {config.base_model!r}",
            hint=f"set base_model to one of its models: {nearest_names(config.base_model, names)}",
            fields=("base_model",),
        )
    probe(settings, f"preview/models/{_NO_MODEL}/checkpoints?limit=1")


def probe(settings: Settings, path: str) -> Any:
    """The document at a path of the service; None if there is none.

    Raises:
        AuthenticationError: If the service refuses the key.
        EndpointError: If it does not answer within seconds, or fails.
    """
    import httpx

    address = serverless_address(settings)
    try:
        answer = httpx.get(
            f"{address}/{path}",
            headers={"Authorization": f"Bearer {settings.wandb_api_key}"},
            timeout=_PROBE_SECONDS,
            trust_env=not is_of_this_machine(address),
        )
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        hint = f"start that server, or unset {ADDRESS}" if is_of_this_machine(address) else "check the network"
        reason = first_line(error)
        raise EndpointError(f"W&B Training at {address} cannot be reached: {reason}", hint=hint) from error
    if answer.status_code == 401:
        raise AuthenticationError(f"W&B Training at {address} refuses the key in WANDB_API_KEY", hint=_KEY_HINT)
    if answer.status_code >= 500:
        raise EndpointError(f"W&B Training at {address} fails: HTTP {answer.status_code}", hint="try again later")
    with suppress(ValueError):
        return answer.json() if answer.is_success else None
    return None
