"""`POST /v1/execute` and `POST /run_code`: runs programs and returns their results.

Clients of `/run_code` count every answer except a program's own end as a failed test, and only verl repeats a request,
after 504 only. So a request is held until there is room, failed sandboxes are replaced, and every failure that the
program did not cause is answered with 504, at the last moment before the client's own timeout. The program continues
meanwhile: the same request, sent again, resumes waiting for it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from http import HTTPStatus

from fastapi import Request

from sandrl.errors import InputError, SandrlError, UsageError
from sandrl.events.results import Status
from sandrl.judge.limits import Limits
from sandrl.judge.running import CommandResult, Program, ProgramResult
from sandrl.problems.languages import find_language
from sandrl.problems.problem_files import file_rows
from sandrl.service.failures import Failure
from sandrl.service.models import (
    CommandRunResult,
    CommandRunStatus,
    ExecuteRequest,
    ExecuteResponse,
    ProcessResult,
    RunCodeRequest,
    RunCodeResponse,
    RunStatus,
)
from sandrl.service.state import Service, check_most, client_of, read_body, unless_gone

CLIENT_SECONDS = 10.0
"""How much longer than the time limit of the program the clients of `/run_code` wait."""

TAKEN_OVER_SECONDS = 30.0
"""How long a program continues after its client was answered 504: until then the same request may resume it."""

LEAST_OUTPUT_BYTES = 4 << 20
"""The least size of each stream in an answer of `/run_code`; its clients compare the whole stream."""

_MARGIN_SECONDS = 1.0
# Besides the usual: a client that is answered with an error counts a failed test.
_RETRIES = 5
# Runners of test frameworks: run as a bare program, their tests would not be, and everything would pass.
_FRAMEWORKS = frozenset({"pytest", "junit", "jest"})
# What SandboxFusion leaves out of `files`.
_IGNORED = "IGNORE_THIS_FILE"


async def execute(service: Service, request: Request) -> ExecuteResponse:
    """Answers `/v1/execute`.

    Raises:
        Failure: If the program cannot be run, or nothing can be said about it.
    """
    body = await read_body(request, ExecuteRequest)
    check_most("max_output_bytes", body.max_output_bytes, service.config.max_output_bytes)
    try:
        program = Program(body.code, body.language, body.stdin, body.files, tuple(body.fetch), body.memory_bytes)
        limits = Limits(
            timeout_seconds=body.timeout_seconds,
            compile_timeout_seconds=body.compile_timeout_seconds,
            max_output_bytes=body.max_output_bytes,
        )
        running = service.scorer.run(program, limits, retries=service.config.retries, client=client_of(request))
    except InputError as error:
        raise Failure(HTTPStatus.UNPROCESSABLE_ENTITY, error.message, error.hint, place=error.field) from None
    result = await unless_gone(request, asyncio.wrap_future(running), running.cancel)
    service.metrics.programs.labels(result.status.value).inc()
    if result.status is Status.INFRASTRUCTURE:
        message = f"the program could not be run: {result.detail}"
        raise Failure(HTTPStatus.SERVICE_UNAVAILABLE, message, "send the request again", {"Retry-After": "2"})
    if result.status is Status.INVALID_PROBLEM:
        raise Failure(HTTPStatus.UNPROCESSABLE_ENTITY, result.detail, place="language")
    return ExecuteResponse(
        status=result.status.value,
        detail=result.detail,
        compile=_process(result.compiler),
        run=_process(result.run),
        files=file_rows(result.files.items()),
        omitted=list(result.omitted),
    )


class RunCode:
    def __init__(self, service: Service) -> None:
        self._service = service
        # Programs whose clients were answered 504, by what they were asked.
        self._left: dict[bytes, deque[Future[ProgramResult]]] = {}
        self._has_warned = False

    async def __call__(self, request: Request) -> RunCodeResponse:
        """Answers one request.

        Raises:
            Failure: If it is no such request, or is to be asked again (504).
        """
        arrived = time.monotonic()
        body = await read_body(request, RunCodeRequest)
        if (problem := body.wrong_time()) is not None:
            raise Failure(HTTPStatus.UNPROCESSABLE_ENTITY, problem, place=problem.partition(" ")[0])
        ends_at = arrived + body.compile_timeout + body.run_timeout + CLIENT_SECONDS - _MARGIN_SECONDS
        program = self._program(body)
        digest = hashlib.sha256(await request.body()).digest()
        running = self._taken_over(digest) or self._started(request, program, body)
        waited = asyncio.wait_for(asyncio.shield(asyncio.wrap_future(running)), max(ends_at - time.monotonic(), 0.0))
        try:
            result = await unless_gone(request, waited, running.cancel)
        except TimeoutError:
            self._leave(digest, running)
            raise _again("no sandbox was free to run the program in time") from None
        except SandrlError as error:
            raise _again(error.message) from None
        self._service.metrics.programs.labels(result.status.value).inc()
        if result.status is Status.INFRASTRUCTURE:
            raise _again(f"the program could not be run: {result.detail}")
        return self._response(body, result)

    def _program(self, body: RunCodeRequest) -> Program:
        if body.language.strip().lower() in _FRAMEWORKS or find_language(body.language) is None:
            message = f"language: {body.language!r:.40} is not a supported language"
            raise Failure(HTTPStatus.UNPROCESSABLE_ENTITY, message, place="language")
        files: dict[str, bytes] = {}
        for path, content in body.files.items():
            if content is None or _IGNORED in path:
                continue
            try:
                files[path] = base64.b64decode(content, validate=True)
            except (binascii.Error, ValueError):
                message = f"files.{path!r:.60}: must be base64"
                raise Failure(HTTPStatus.UNPROCESSABLE_ENTITY, message, place="files") from None
        memory: int | None = body.memory_limit_MB << 20 if body.memory_limit_MB > 0 else None
        has = self._service.memory_bytes
        if memory is not None and has is not None and memory >= has:
            if memory > has:
                self._warn_of_memory(memory, has)
            memory = None  # the sandbox's own bound comes first
        try:
            return Program(body.code, body.language, body.stdin or "", files, tuple(body.fetch_files), memory)
        except InputError as error:
            raise Failure(HTTPStatus.UNPROCESSABLE_ENTITY, error.message, error.hint, place=error.field) from None

    def _warn_of_memory(self, asked: int, has: int) -> None:
        if not self._has_warned:
            self._has_warned = True
            message = f"a client of /run_code allows {asked >> 20} MiB of memory, and a sandbox has {has >> 20} MiB"
            self._service.warn(message, f"start the service with `sandbox_memory_bytes` {asked}")

    def _started(self, request: Request, program: Program, body: RunCodeRequest) -> Future[ProgramResult]:
        # Its client waits for room in any case, so the bound of the queue is not for it.
        limits = Limits(
            timeout_seconds=body.run_timeout,
            compile_timeout_seconds=body.compile_timeout,
            max_output_bytes=max(self._service.config.max_output_bytes, LEAST_OUTPUT_BYTES),
        )
        client = client_of(request)
        try:
            return self._service.scorer.run(program, limits, retries=_RETRIES, client=client, is_bounded=False)
        except UsageError as error:
            raise Failure(HTTPStatus.UNPROCESSABLE_ENTITY, error.message, error.hint) from None
        except SandrlError as error:
            raise _again(error.message) from None

    def _taken_over(self, digest: bytes) -> Future[ProgramResult] | None:
        left = self._left.get(digest)
        running = left.popleft() if left else None
        if not left:
            self._left.pop(digest, None)
        return running

    def _leave(self, digest: bytes, running: Future[ProgramResult]) -> None:
        self._left.setdefault(digest, deque()).append(running)

        def give_up() -> None:
            left = self._left.get(digest, deque())
            with suppress(ValueError):
                left.remove(running)
                running.cancel()
            if not left:
                self._left.pop(digest, None)

        asyncio.get_running_loop().call_later(TAKEN_OVER_SECONDS, give_up)

    def _response(self, body: RunCodeRequest, result: ProgramResult) -> RunCodeResponse:
        if result.status is Status.INVALID_PROBLEM:
            return RunCodeResponse(status=RunStatus.SANDBOX_ERROR, message=result.detail)
        commands = [each for each in (result.compiler, result.run) if each is not None]
        is_success = result.run is not None and all(each.exit_status == 0 for each in commands)
        has, asked = self._service.memory_bytes, body.memory_limit_MB << 20
        if result.status is Status.RESOURCE_LIMIT and has is not None and asked > has:
            # It was allowed more than there is.
            message = f"the program may use {body.memory_limit_MB} MiB of memory, and a sandbox has {has >> 20} MiB"
            return RunCodeResponse(status=RunStatus.SANDBOX_ERROR, message=f"{message}: {result.detail}")
        if is_success and any(each.truncated for each in commands):
            # Its output cannot be compared, so nothing can be said of it.
            message = "the output of the program is too long; start the service with a larger max_output_bytes"
            return RunCodeResponse(status=RunStatus.SANDBOX_ERROR, message=message)
        return RunCodeResponse(
            status=RunStatus.SUCCESS if is_success else RunStatus.FAILED,
            message="",
            compile_result=_command(result.compiler),
            run_result=_command(result.run),
            files={path: base64.b64encode(content).decode("ascii") for path, content in result.files.items()},
        )


def _again(reason: str) -> Failure:
    return Failure(
        HTTPStatus.GATEWAY_TIMEOUT,
        reason,
        "send the request again: the program did not cause the failure",
        {"Retry-After": "1"},
    )


def _process(command: CommandResult | None) -> ProcessResult | None:
    if command is None:
        return None
    seconds = {"seconds": round(command.seconds, 6), "cpu_seconds": round(command.cpu_seconds, 6)}
    return ProcessResult.model_validate({**asdict(command), "timed_out": command.timed_out, **seconds})


def _command(command: CommandResult | None) -> CommandRunResult | None:
    if command is None:
        return None
    status = CommandRunStatus.TIME_LIMIT_EXCEEDED if command.timed_out else CommandRunStatus.FINISHED
    return CommandRunResult(
        status=status,
        execution_time=command.seconds,
        return_code=command.exit_status,
        stdout=command.stdout,
        stderr=command.stderr,
    )
