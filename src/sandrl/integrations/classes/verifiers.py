"""The taskset for verifiers, the harness that calls the model once, and the environment of both.

verifiers writes to disk, and sends to its workers, only the name of a problem and of its set. So a worker loads the
problem itself, and traces contain no hidden checks. The harness runs no code, so by default it runs on this machine,
and not in a sandbox of Prime Intellect's service.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Any

import verifiers.v1 as vf
from pydantic import Field
from verifiers.v1.utils import loaders

from sandrl.errors import UsageError
from sandrl.integrations.backend import Scoring, backend_for, scored
from sandrl.integrations.problems import named_problem, problem_set
from sandrl.integrations.verifiers import record
from sandrl.problems import Problem, chat_prompt
from sandrl.problems.prompts import SHOWN_TESTS

__all__ = [
    "CodeData",
    "CodeEnv",
    "CodeEnvConfig",
    "CodeHarness",
    "CodeTask",
    "CodeTaskConfig",
    "CodeTaskset",
    "CodeTasksetConfig",
]

_DELAYS_SECONDS = (1.0, 4.0)
_RETRIED = frozenset({408, 429, 500, 502, 503, 504})


class CodeData(vf.TaskData):  # type: ignore[misc] # the framework is not there for the type checker
    """A problem of a set, by their names."""

    task_id: str
    problems: str


class CodeTaskConfig(vf.TaskConfig):  # type: ignore[misc]
    """How tasks are scored: `--env.taskset.task.*`."""

    service: str | None = None
    """Address of a `sandrl serve` that scores, instead of sandboxes of this process. Its token is in
    SANDRL_SERVICE_TOKEN, because this configuration is saved."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The options of scoring: `reward`, `timeout_seconds`, …."""


class CodeTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Which problems: `--env.taskset.*`."""

    task: CodeTaskConfig = CodeTaskConfig()
    """How they are scored."""
    problems: str = "bundled"
    """The set, as `--problems` takes it."""
    num_problems: int | None = None
    """How many of its problems; all unless given."""
    show_tests: int = SHOWN_TESTS
    """How many asserts or cases a prompt shows at most."""


class CodeTask(vf.Task[CodeData, vf.State, CodeTaskConfig]):  # type: ignore[misc]
    """Asks for code, and scores it."""

    @property
    def problem(self) -> Problem:
        """The problem."""
        return named_problem(self.data.task_id, self.data.problems)

    @vf.reward  # type: ignore[untyped-decorator]
    async def code(self, trace: Any) -> float:
        """The reward of the last reply.

        Raises:
            InfrastructureError: If it has none because sandboxes failed: the rollout ends with an error.
        """
        scoring = Scoring.of(self.config.options)
        result = await scored(backend_for(self.config.service), self.problem, trace.last_reply, scoring)
        return record(result, trace)

    async def validate(self, runtime: Any) -> bool | None:
        """Whether the reference solution passes, or None if the problem has no reference."""
        problem = self.problem
        if problem.reference is None:
            return None
        scoring = Scoring.of(self.config.options)
        backend = backend_for(self.config.service)
        return (await scored(backend, problem, problem.reference, scoring, is_code=True)).is_pass


class CodeTaskset(vf.Taskset[CodeTask, CodeTasksetConfig]):  # type: ignore[misc]
    """The problems of a set."""

    def load(self) -> Iterator[CodeTask]:
        """Makes a task of each problem.

        Raises:
            InputError: If the set cannot be used.
        """
        config = self.config
        for name, problem in islice(problem_set(config.problems).items(), config.num_problems):
            system, user = (message["content"] for message in chat_prompt(problem, show_tests=config.show_tests))
            data = CodeData(
                id=name, name=name, task_id=name, problems=config.problems, prompt=user, system_prompt=system
            )
            yield CodeTask(data, config.task)


class CodeHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    """Asks the model once, without tools, in this process."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Asks the model; returns exit code 0, or 1 with the answer that is an error."""
        import httpx

        system, prompt = self.resolve_text_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt or ""})
        body = {"model": ctx.model, "messages": messages}
        async with httpx.AsyncClient(
            headers={"Authorization": f"Bearer {secret}"}, timeout=None, trust_env=False
        ) as client:
            for delay_seconds in (*_DELAYS_SECONDS, None):
                response = await client.post(f"{endpoint.rstrip('/')}/chat/completions", json=body)
                if response.status_code not in _RETRIED or delay_seconds is None:
                    break
                await asyncio.sleep(delay_seconds)
        if response.status_code == 200:
            return vf.ProgramResult(0, "", "")
        return vf.ProgramResult(1, "", f"the model's endpoint answers {response.status_code}: {response.text[:1000]}")


class CodeEnvConfig(vf.EnvConfig):  # type: ignore[misc]
    """The environment: `--env.*`."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    """Who answers, and where its harness works."""


class CodeEnv(vf.Env[CodeEnvConfig]):  # type: ignore[misc]
    """One agent, which answers each task.

    Raises:
        UsageError: If a harness that runs the model's commands is to run them on this machine.
    """

    def __init__(self, config: CodeEnvConfig) -> None:
        harness = config.agent_harnesses()["agent"]
        runs_commands = loaders.harness_class(harness.id).EXECUTES_CODE
        if runs_commands and isinstance(config.agent.runtime, vf.SubprocessConfig):
            raise UsageError(
                f"the harness {harness.id!r} would run the model's commands on this machine, in no sandbox:"
                " choose another place for it, for example docker (`env.agent.runtime.type`)"
            )
        super().__init__(config)

    async def run(self, task: CodeTask, agents: Any) -> None:
        """Has the agent answer a task."""
        await agents.agent.run(task)
