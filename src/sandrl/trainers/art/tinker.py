"""A model that is trained by a Tinker service, with ART's `TinkerNativeBackend`.

ART's backend is used unchanged, and this module closes its gaps: its server requires a token and listens on loopback
only; every step saves a checkpoint from which a killed run can be resumed; and the messages of a teacher are scored
under the trained model first, because ART skips messages without logprobs.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sandrl.config.art import ArtBackendKind, ArtTrainConfig
from sandrl.errors import EndpointError, InputError, TrainingError
from sandrl.files import write_whole
from sandrl.models.client import ModelEndpoint
from sandrl.models.libraries import first_line
from sandrl.settings import Settings
from sandrl.trainers.art.backend import UNTRAINABLE, StepResult, TrainedModel, regrouped, scored_message
from sandrl.trainers.art.groups import Group, Sample, context, count_tokens, openai_tools
from sandrl.trainers.art.libraries import hear_signals, load, model_names
from sandrl.trainers.art.loop import EventLoop
from sandrl.trainers.art.service import check_tinker, is_of_question, key_shown, renderer_name, translated
from sandrl.trainers.tinker.options import EXTRA

_PACKAGE = "art.tinker_native.backend"
_SCORED_AT_ONCE = 64
_MEASURED = "measured.json"


class TinkerModel(TrainedModel):
    """A model, named after its run, that a Tinker service trains under its own name for it (`model`).

    ART's directory (`path`) remembers where the checkpoints are.

    Raises:
        ServiceError: If the service fails, or refuses.
    """

    extra = EXTRA

    def __init__(
        self, config: ArtTrainConfig, settings: Settings, *, name: str, path: Path, model: str, loop: EventLoop
    ) -> None:
        super().__init__(config, loop)
        self._settings = settings
        art, self._tinker = load("art", extra=EXTRA), load("tinker", extra=EXTRA)
        self._data = load("art.tinker_native.data", extra=EXTRA)
        self._renderers = load("tinker_cookbook.renderers", extra=EXTRA)
        # Adapters that are made of a seed, where the service is ours.
        seed = {"seed": config.seed} if config.backend is ArtBackendKind.EMBEDDED else {}
        self._measured = path / _MEASURED
        self._trained_tokens = 0
        with key_shown(settings), translated(settings):
            self._backend = _guarded_backend(self._token, self._keep)(path=str(path))
            self._model = _model_class(art)(
                **model_names(name),
                project=config.project,
                base_model=model,
                base_path=str(path),
                _internal_config={
                    "tinker_native_args": {
                        "renderer_name": renderer_name(config),
                        "training_client_args": {"rank": config.lora_rank, **seed},
                    }
                },
            )
            try:
                self._resume()
            except BaseException:
                self.close()
                raise

    def _resume(self) -> None:
        try:
            known = int((self._model.read_state() or {}).get("latest_step", 0))
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(
                "is damaged: the list of the run's checkpoints cannot be read",
                path=Path(self._model._get_output_dir()) / "state.json",
                hint="start a new run under another name",
            ) from error
        try:
            self._register()
        except TimeoutError as error:
            raise EndpointError(f"the server for {self._model.base_model!r} does not answer: {error}") from error
        hear_signals()
        self.found = self._kept()
        if self.step < known:
            # ART takes a listing that failed for one that is empty, and would begin anew.
            raise EndpointError(
                f"Tinker currently does not list the checkpoint of step {known} of this run", hint="try again later"
            )

    @property
    def step(self) -> int:
        return int(self._state.current_step)

    @property
    def endpoint(self) -> ModelEndpoint:
        # It is on this machine, and what is behind it is asked again by its SDK.
        found = super().endpoint
        return replace(found, retries=min(found.retries, 1))

    def check_alive(self) -> None:
        check_tinker(self._settings)

    def score(self, groups: Sequence[Group], tools: Sequence[Mapping[str, Any]]) -> list[Group]:
        with translated(self._settings):
            return self._loop.run(self._all_scored(groups, tools), is_step=True)

    # What a step measures is kept before its checkpoint is made: who resumes after the checkpoint can still tell it.
    def _keep(self, metrics: Mapping[str, float]) -> None:
        document = {"step": self.step + 1, "tokens": self._trained_tokens, "metrics": dict(metrics)}
        self._measured.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._measured, json.dumps(document).encode(), durable=True)

    def _kept(self) -> StepResult | None:
        try:
            known = json.loads(self._measured.read_text())
            metrics = {str(name): float(value) for name, value in known["metrics"].items()}
            return StepResult(int(known["step"]), 1, int(known["tokens"]), metrics)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            # It is told where it is known; nothing depends on it.
            return None

    def train(self, groups: Sequence[Group], tools: Sequence[Mapping[str, Any]], *, learning_rate: float) -> StepResult:
        before = self.step
        self._trained_tokens = count_tokens(groups)
        with translated(self._settings):
            try:
                # Without a checkpoint the next job would begin at the base model again, under a later step's name.
                result = self._trained(groups, tools, learning_rate=learning_rate, save_checkpoint=True)
            except UNTRAINABLE as error:
                raise TrainingError(f"ART cannot train step {before + 1}: {first_line(error)}") from error
        # The backend moves on by one optimizer step, or, where it found nothing to train, not at all.
        return StepResult(int(result.step), int(result.step) - before, self._trained_tokens, dict(result.metrics))

    def close(self) -> None:
        states = list(self._backend._model_state.values())
        super().close()
        for state in states:
            # It keeps the service waiting for us.
            state.service_client.holder.close()

    @property
    def _state(self) -> Any:
        # The releases differ in its key.
        (state,) = self._backend._model_state.values()
        return state

    async def _all_scored(self, groups: Sequence[Group], tools: Sequence[Mapping[str, Any]]) -> list[Group]:
        room = asyncio.Semaphore(_SCORED_AT_ONCE)
        samples = [sample for group in groups for sample in group.samples]
        try:
            async with asyncio.TaskGroup() as tasks:
                pending = [tasks.create_task(self._scored(sample, tools, room)) for sample in samples]
        except ExceptionGroup as errors:
            # They fail alike, and whoever translates errors of the service looks for one.
            raise errors.exceptions[0] from None
        return regrouped(groups, [task.result() for task in pending])

    async def _scored(self, sample: Sample, tools: Sequence[Mapping[str, Any]], room: asyncio.Semaphore) -> Sample:
        messages, offered = list(sample.messages), openai_tools(sample.tools or tools)
        for turn in sample.turns:
            async with room:
                prompt, spoken = self._tokens(context(sample, turn + 1), offered)
                logprobs = await self._logprobs([*prompt, *spoken])
                messages[turn] = scored_message(messages[turn], spoken, logprobs[len(prompt) :])
        branches = [await self._scored(branch, tools, room) for branch in sample.branches]
        return replace(sample, messages=tuple(messages), branches=tuple(branches))

    async def _logprobs(self, tokens: list[int]) -> list[float | None]:
        tinker = self._tinker
        sampler = self._state.sampler_clients[self.step]
        try:
            return list(await sampler.compute_logprobs_async(tinker.ModelInput.from_ints(tokens)) or [])
        except (tinker.APIStatusError, tinker.RequestFailedError) as error:
            if not is_of_question(error):
                raise
            # Longer than the model can read, as a rule: a teacher may well read more.
            return []

    def _tokens(
        self, messages: Sequence[dict[str, Any]], tools: list[dict[str, Any]] | None
    ) -> tuple[list[int], list[int]]:
        # The tokens of a conversation up to its last message, and those of that message, its end included.
        renderers, renderer = self._renderers, self._state.renderer
        rendered = self._data.convert_openai_messages_to_renderer_format(list(messages), tools, renderer)
        tokens, weights = renderer.build_supervised_example(
            rendered, train_on_what=renderers.TrainOnWhat.LAST_ASSISTANT_MESSAGE
        )
        spoken = [token for token, weight in zip(tokens.to_ints(), weights.tolist(), strict=True) if weight > 0]
        return list(renderer.build_generation_prompt(rendered[:-1]).to_ints()), spoken


def _model_class(art: Any) -> type[Any]:
    # Its state is whole at every moment: what is lost of it is where the checkpoints are.
    class WholeModel(art.TrainableModel):  # type: ignore[misc]
        def overwrite_state(self, state: dict[str, Any]) -> None:
            directory = Path(self._get_output_dir())
            directory.mkdir(parents=True, exist_ok=True)
            write_whole(directory / "state.json", json.dumps(state, indent=2).encode(), durable=True)

    return WholeModel


def _guarded_backend(token: str, keep: Callable[[Mapping[str, float]], None]) -> type[Any]:
    # ART's backend with a server that only answers those who have the token; it tells what a step measured.
    module: Any = load(_PACKAGE, extra=EXTRA)
    fastapi: Any = load("fastapi", extra=EXTRA)
    responses = load("fastapi.responses", extra=EXTRA)
    tinker = load("tinker", extra=EXTRA)
    expected = f"Bearer {token}".encode()

    async def admit(request: Any) -> None:
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected):
            raise fastapi.HTTPException(401, "this server belongs to a training; a request needs its token")

    async def explain(request: Any, error: Any) -> Any:
        # The question's fault is told from the service's.
        document = {"error": {"message": first_line(error)}}
        return responses.JSONResponse(document, status_code=400 if is_of_question(error) else 503)

    admit.__annotations__["request"] = fastapi.Request

    class GuardedBackend(module.TinkerNativeBackend):  # type: ignore[misc]
        async def _tinker_train_call(self, label: str, awaitable: Any) -> Any:
            answer = await super()._tinker_train_call(label, awaitable)
            if label == "forward_backward":
                named = {
                    module._canonicalize_upstream_metric_key(name): value for name, value in answer.metrics.items()
                }
                keep({name: value for name, value in named.items() if name and value is not None})
            return answer

        async def _run_openai_server(self, state: Any, host: str, port: int) -> None:
            uvicorn = module.uvicorn

            def quiet_config(app: Any, **options: Any) -> Any:
                return uvicorn.Config(app, **{**options, "log_level": "critical", "lifespan": "off"}, log_config=None)

            application = partial(
                fastapi.FastAPI,
                dependencies=[fastapi.Depends(admit)],
                exception_handlers={tinker.TinkerError: explain},
                openapi_url=None,
            )
            # Nothing of the application begins or ends with the server, and its logs are nobody's.
            quiet = SimpleNamespace(Config=quiet_config, Server=uvicorn.Server)

            async def serve() -> None:
                try:
                    await run(state, host, port)
                except SystemExit as error:
                    # What uvicorn does where it cannot listen; it would take the whole loop with it.
                    raise OSError(f"nothing can listen at {host}:{port}") from error

            run = super()._run_openai_server
            with _replaced(module, FastAPI=application, uvicorn=quiet):
                serving = asyncio.ensure_future(serve())
                # It has made its application and its server by the time it first waits.
                await asyncio.sleep(0)
            await serving

        def _crash_on_server_exit(self, *ended: Any) -> None:
            # Not the process: there are sandboxes to stop, and results to keep. The task comes last.
            if not (task := ended[-1]).cancelled():
                task.exception()

    return GuardedBackend


@contextmanager
def _replaced(module: Any, **others: Any) -> Iterator[None]:
    before = {name: getattr(module, name) for name in others}
    vars(module).update(others)
    try:
        yield
    finally:
        vars(module).update(before)
