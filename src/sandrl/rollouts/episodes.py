"""An episode: one model works on one problem in one sandbox, until there is a solution or a limit is reached.

An episode ends in one of two ways. Either there is something to judge, possibly an empty solution: it gets a verdict
from the normal judge in a fresh sandbox, never in the one that the model could prepare. Or the endpoint or a sandbox
failed: the episode is lost, and has a reason and no reward. No output of the model leads to the second way.

On a task the model is the agent of a trial: it works in the task's machine with the task's tools, and the verifier of
the task judges what the machine has become. All steps of a task are one conversation.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

from sandrl.answers.extraction import Extraction, extract_code
from sandrl.config.episodes import EpisodesConfig
from sandrl.config.eval import EvalConfig
from sandrl.config.parts import TASK_TOOL_CALLS, TOOL_CALLS
from sandrl.config.words import EpisodeKind, ToolSet
from sandrl.errors import EndpointError, InfrastructureError, RequestRefusedError, UsageError
from sandrl.events.results import ScoredCompletion, Status, is_cut_off
from sandrl.models.client import Stopped
from sandrl.models.messages import Message
from sandrl.models.protocol import Player
from sandrl.problems import (
    ANSWER_INSTRUCTION,
    SUBMIT_INSTRUCTION,
    TASK_INSTRUCTION,
    Completion,
    Problem,
    shown_checks,
)
from sandrl.problems.prompting import Prompting
from sandrl.problems.tasks.task import DEFAULT_SECONDS, TaskStep
from sandrl.rollouts.agents import INSTRUCTION, Installed, Recipe, variables_of
from sandrl.rollouts.calls import Call, tool_schemas
from sandrl.rollouts.feedback import (
    ATTEMPTS_INSTRUCTION,
    CUT_OFF,
    NO_CODE,
    OTHERS_FAIL,
    ShownChecks,
    told_of_task,
    try_shown,
)
from sandrl.rollouts.proxy import ModelProxy
from sandrl.rollouts.proxy.recording import Branch, Recording
from sandrl.rollouts.sandbox import EpisodeSandbox
from sandrl.rollouts.shared_job import SharedJob
from sandrl.rollouts.task_tools import TASK_TOOLS
from sandrl.rollouts.toolbox import EpisodeEnd, TaskToolbox, Toolbox
from sandrl.rollouts.tools import TOOLS
from sandrl.sandboxes import Shape, State, Withdrawn
from sandrl.trials.answers import remark_on
from sandrl.trials.machine import Machine
from sandrl.trials.place import RuntimeLost

# Of each output.
_AGENT_BYTES = 4 << 10
# Linux takes variables of 128 KiB with their name.
_MOST_INSTRUCTION_BYTES = 128_000


@dataclass(frozen=True, slots=True)
class EpisodeOptions:
    """How episodes go.

    Attributes:
        kind: None for tools on tasks, and attempts on other problems.
        max_tool_calls: None for a usual number.
        agent: Who works on tasks instead of the model with our tools; None for the model.
    """

    kind: EpisodeKind | None = None
    tool_set: ToolSet = ToolSet.CODE
    max_tool_calls: int | None = None
    max_attempts: int = 3
    prompting: Prompting = field(default_factory=Prompting)
    extraction: Extraction = Extraction.AUTO
    agent: Installed | None = None

    @classmethod
    def of(cls, config: EpisodesConfig | EvalConfig, prompting: Prompting) -> Self:
        agent = None if config.agent is None else Installed(Recipe.find(config.agent), config.private_hosts)
        return cls(
            config.rollout,
            config.tools,
            config.max_tool_calls,
            config.max_attempts,
            prompting,
            config.extract,
            agent,
        )

    def has_tools(self, problem: Problem) -> bool:
        """Whether an episode on a problem has tools; otherwise it has attempts."""
        if self.kind is None:
            return problem.task is not None
        return self.kind is EpisodeKind.TOOLS

    def tools(self, problem: Problem) -> Mapping[str, type[Call]]:
        """The tools of an episode on a problem, by name."""
        if not self.has_tools(problem) or self.agent is not None:
            return {}
        return TOOLS[self.tool_set] if problem.task is None else TASK_TOOLS

    def most_calls(self, problem: Problem) -> int:
        return self.max_tool_calls or (TOOL_CALLS if problem.task is None else TASK_TOOL_CALLS)

    def offered(self, problems: Iterable[Problem]) -> tuple[Mapping[str, Any], ...]:
        """The tools of episodes on problems, as a model is told of them; those of tasks only if all are tasks."""
        if self.agent is not None:
            return ()
        sets = {problem.task is None: self.tools(problem) for problem in problems if self.has_tools(problem)}
        return tool_schemas(sets[max(sets)]) if sets else ()


def has_tasks(problems: Iterable[Problem]) -> bool:
    return any(problem.task is not None for problem in problems)


def is_mixed(problems: Iterable[Problem]) -> bool:
    """Whether some problems are tasks, and others are not."""
    return len({problem.task is None for problem in problems}) > 1


def check_player(model: Player, problems: Iterable[Problem], options: EpisodeOptions) -> None:
    """Refuses episodes with tools to a model that has none.

    Raises:
        UsageError: If there would be one.
    """
    if options.agent is not None:
        check_agent(problems)
        return
    if not model.has_tools and any(map(options.has_tools, problems)):
        raise UsageError(
            f"rollout: {model.name} in this process supports only `attempts`; tools need an endpoint",
            hint="use `rollout` attempts, or give an endpoint with base_url",
            fields=("rollout", "base_url"),
        )


def check_agent(problems: Iterable[Problem]) -> None:
    """Refuses problems that an agent of others cannot work on.

    Raises:
        UsageError: If there is one.
    """
    for problem in problems:
        if problem.task is None:
            message = f"agent: works on tasks, and the problem {problem.task_id!r} is none"
            raise UsageError(message, hint="leave out `agent`, or use a set of tasks", fields=("agent",))
        for step in problem.task.steps:
            if "\0" in step.instruction or len(step.instruction.encode()) > _MOST_INSTRUCTION_BYTES:
                message = f"agent: the instruction of {problem.task_id!r} does not fit into a variable"
                hint = f"leave out the task: a variable has at most {_MOST_INSTRUCTION_BYTES} bytes, and no NUL"
                raise UsageError(message, hint=hint, fields=("agent",))


@dataclass(slots=True)
class Episode:
    """What happened in an episode; it grows while it lasts.

    Attributes:
        number: Its position in its step, from 0.
        solution: What was judged last; None while nothing was.
        result: What became of it; None while there is none, and for ever if it was lost.
        end: Why it ended; None while it lasts.
        loss: Why it was lost to infrastructure; empty if it was not.
        tools: The tools that an agent offered in `messages`; empty where they are those of the run.
        branches: What an agent said besides `messages`.
        agent_output: The end of what an agent printed.
        seconds: How long the parts took: `policy`, `sandbox` and `judge`.
    """

    number: int
    id: str
    problem: Problem
    shown: ShownChecks
    messages: list[Message]
    solution: Completion | None = None
    result: ScoredCompletion | None = None
    end: EpisodeEnd | None = None
    loss: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    retries: int = 0
    tool_calls: int = 0
    attempts: int = 0
    tools: tuple[Mapping[str, Any], ...] = ()
    branches: tuple[Branch, ...] = ()
    agent_output: str = ""
    seconds: dict[str, float] = field(default_factory=lambda: {"policy": 0.0, "sandbox": 0.0, "judge": 0.0})

    def take(self, recording: Recording) -> None:
        """Makes what an agent and the model said the episode's: the branch with the most turns is its conversation."""
        branches = recording.branches
        if branches:
            main = max(branches, key=lambda branch: len(branch.turns))
            self.messages, self.tools = list(main.messages), main.tools
            self.branches = tuple(branch for branch in branches if branch is not main)
        self.prompt_tokens, self.completion_tokens = recording.prompt_tokens, recording.completion_tokens
        self.retries, self.seconds["policy"] = recording.retries, recording.seconds
        self.tool_calls = sum(len(turn.tool_calls) for branch in branches for turn in branch.turns)


def new_episode(number: int, identifier: str, problem: Problem, options: EpisodeOptions) -> Episode:
    """An episode that can be played: the model's instructions and the problem are in it."""
    prompting = options.prompting
    prompt = prompting.messages(problem, instruction=_instruction(problem, options), extraction=options.extraction)
    messages = [Message(each["role"], each["content"]) for each in prompt]
    return Episode(number, identifier, problem, shown_checks(problem, prompting.show_tests), messages)


def _instruction(problem: Problem, options: EpisodeOptions) -> str:
    if options.has_tools(problem):
        return SUBMIT_INSTRUCTION if problem.task is None else TASK_INSTRUCTION
    # A policy that was trained to answer between tags is asked as it was then, and for one answer as evaluations ask.
    is_tagged = options.extraction in (Extraction.ANSWER, Extraction.EXACT) or options.max_attempts == 1
    return ANSWER_INSTRUCTION if is_tagged else ATTEMPTS_INSTRUCTION


class _Lost(Exception):
    pass


class _Full(Exception):
    pass


def play(episode: Episode, model: Player, place: SharedJob, options: EpisodeOptions) -> None:
    """Plays an episode to its end.

    Raises:
        AuthenticationError: If an endpoint or service refuses the credentials.
        UsageError: If there is no such model, or the endpoint or the sandbox service refuses the request itself.
        Stopped: If the episode is not wanted any more.
    """
    turn: type[_Attempts | _Tools | _Task | _Agent] = _Attempts
    if options.has_tools(episode.problem):
        turn = _Tools if episode.problem.task is None else _Agent if options.agent is not None else _Task
    try:
        turn(episode, model, place, options).play()
    except Withdrawn as error:
        raise Stopped from error
    except (_Lost, EndpointError, InfrastructureError, RuntimeLost) as error:
        episode.end, episode.loss = EpisodeEnd.LOST, str(error)


class _Play:
    def __init__(self, episode: Episode, model: Player, place: SharedJob, options: EpisodeOptions) -> None:
        self.episode = episode
        self.model = model
        self.place = place
        self.options = options
        self.schemas = tool_schemas(options.tools(episode.problem))

    def ask(self) -> Message:
        episode = self.episode
        began = time.monotonic()
        try:
            reply = self.model.reply(episode.messages, self.schemas)
        except RequestRefusedError as refusal:
            has_begun = any(message.role == "assistant" for message in episode.messages)
            if has_begun and _is_too_long(refusal):
                raise _Full from refusal
            if has_begun or _is_too_long(refusal):
                raise EndpointError(refusal.message) from refusal
            # What is refused from the start is refused to every episode.
            raise
        finally:
            episode.seconds["policy"] += time.monotonic() - began
        episode.messages.append(reply.message)
        episode.prompt_tokens += reply.prompt_tokens
        episode.completion_tokens += reply.completion_tokens
        episode.retries += reply.retries
        return reply.message

    # The verdict on a solution. The last one with code is the episode's, and has the runs of those before it.
    def judge(self, *, text: str | None = None, code: str | None = None) -> ScoredCompletion:
        episode = self.episode
        began = time.monotonic()
        said = next((each for each in reversed(episode.messages) if each.role == "assistant"), None)
        solution = Completion(
            episode.id,
            episode.problem.task_id,
            completion=text,
            code=code,
            finish_reason=None if said is None else said.finish_reason,
            tokens=(said and len(said.tokens)) or None,
        )
        found = self.place.judge(solution, episode.problem, episode.number)
        episode.seconds["judge"] += time.monotonic() - began
        if episode.result is None or found.status is not Status.NO_CODE:
            episode.solution = solution
            episode.result = _together(episode.result, replace(found, index=episode.number))
        return found

    def check_sandbox(self, loss: str) -> None:
        if loss:
            raise _Lost(f"the sandbox was lost: {loss}")

    # One message, and the answers to all of its calls: where one is missing, a conversation cannot go on.
    def turn(self, toolbox: Toolbox | TaskToolbox) -> EpisodeEnd | None:
        episode = self.episode
        try:
            message = self.ask()
        except _Full:
            return EpisodeEnd.TOO_LONG
        for call in message.tool_calls:
            began = time.monotonic()
            told = toolbox.call(call.name, call.arguments)
            seconds = time.monotonic() - began
            episode.seconds["sandbox"] += seconds
            episode.tool_calls = toolbox.calls
            self.check_sandbox(toolbox.loss)
            episode.messages.append(Message("tool", told, tool_call_id=call.id, name=call.name, seconds=seconds))
        return toolbox.end if message.tool_calls else EpisodeEnd.NO_TOOL_CALLS


class _Tools(_Play):
    def play(self) -> None:
        episode, options = self.episode, self.options
        problem = episode.problem
        toolbox = Toolbox(self.place.sandbox(problem), options.tool_set, options.most_calls(problem))
        try:
            while episode.end is None:
                episode.end = self.turn(toolbox)
        finally:
            toolbox.close()
        self.judge(code=toolbox.solution or "")


class _Task(_Play):
    # The agent of a trial, which acts on the trial's thread; its errors are those of the episode.

    takes_turns = True

    @property
    def is_repeatable(self) -> bool:
        return not self.has_begun

    def play(self) -> None:
        episode = self.episode
        self.error: BaseException | None = None
        self.has_begun = False
        self.toolbox = TaskToolbox(self.options.most_calls(episode.problem))
        began = time.monotonic()
        solution = Completion(episode.id, episode.problem.task_id, code="")
        try:
            result = self.place.judge(solution, episode.problem, episode.number, agent=self)
        finally:
            if self.error is not None:
                raise self.error
        spent = episode.seconds["policy"] + episode.seconds["sandbox"]
        episode.seconds["judge"] = max(time.monotonic() - began - spent, 0.0)
        episode.solution, episode.result = solution, replace(result, index=episode.number)
        if episode.end is None:
            # The machine was not there when the work was to begin.
            episode.end = EpisodeEnd.CANNOT_BE_JUDGED

    def act(self, machine: Machine, step: TaskStep, number: int) -> str | None:
        episode, toolbox = self.episode, self.toolbox
        if number:
            episode.messages.append(Message("user", step.instruction))
        self.has_begun, episode.end = True, None
        toolbox.begin(machine, step)
        try:
            while episode.end is None:
                episode.end = toolbox.end or self.turn(toolbox)
        except BaseException as error:
            self.error = error
            if isinstance(error, InfrastructureError | RuntimeLost | Withdrawn):
                raise
            raise InfrastructureError(str(error) or type(error).__name__) from error
        finally:
            with suppress(InfrastructureError):
                toolbox.close()
        return None if episode.end is EpisodeEnd.SUBMITTED else f"the work ended: {episode.end}"


class _Agent(_Task):
    # A command of the machine, which asks the model through the proxy.

    def play(self) -> None:
        agent = self.options.agent
        assert agent is not None, "it is one of an agent"
        self.installed = agent
        if not self.place.place.connection.is_local:
            message = "agent: the sandboxes of this runtime do not reach the recording proxy"
            raise UsageError(message, hint="use `runtime` local", fields=("agent", "runtime"))
        listener = socket.create_server(("127.0.0.1", 0))
        self.ports: tuple[int, ...] = (listener.getsockname()[1],)
        with ModelProxy(self.model).open() as self.conversation:
            self.conversation.listen(listener)
            super().play()

    def state(self, image: str, make: Callable[[Shape], Machine]) -> State | None:
        return self.installed.state(image, make, self.place.emit)

    def act(self, machine: Machine, step: TaskStep, number: int) -> str | None:
        episode, recipe, conversation = self.episode, self.installed.recipe, self.conversation
        task = episode.problem.task
        assert task is not None, "it is an episode of one"
        self.has_begun = True
        limit = DEFAULT_SECONDS if step.agent.timeout_seconds is None else step.agent.timeout_seconds
        variables = {
            **dict(step.agent.variables),
            **variables_of(self.ports[0], conversation.token, self.model.name),
            INSTRUCTION: step.instruction,
            **recipe.variables,
        }
        recording = conversation.recording
        began = time.monotonic()
        try:
            outcome = machine.run(recipe.run, user=step.agent.user, timeout_seconds=limit, variables=variables)
        except BaseException as error:
            self.error = error
            raise
        finally:
            reason = recording.end
            if number == len(task.steps) - 1:
                # What it leaves running asks nothing more.
                conversation.end("the agent has ended")
            episode.take(recording)
            spent = time.monotonic() - began - recording.seconds
            episode.seconds["sandbox"] += max(spent, 0.0)
        told = outcome.stdout[-_AGENT_BYTES:] + outcome.stderr[-_AGENT_BYTES:]
        episode.agent_output = told.decode("utf-8", "replace")
        # A model or an agent whose requests are all refused is set up wrongly.
        loss = recording.loss or ("" if recording.turns else recording.refusal or recording.silence)
        if recording.error is not None or loss:
            self.error = recording.error or EndpointError(loss)
            raise InfrastructureError(str(self.error))
        if outcome.timed_out:
            episode.end = EpisodeEnd.TIME_IS_UP
        elif reason:
            episode.end = EpisodeEnd.REFUSED
        else:
            episode.end = EpisodeEnd.AGENT_ENDED if outcome.exit_code == 0 else EpisodeEnd.AGENT_FAILED
        return reason or remark_on(f"the agent {recipe.name}", outcome, limit)


class _Attempts(_Play):
    def play(self) -> None:
        episode = self.episode
        sandbox = self.place.sandbox(episode.problem)
        try:
            while episode.end is None:
                wrong = self._attempt(sandbox)
                if episode.end is None:
                    episode.messages.append(Message("user", wrong))
        finally:
            sandbox.close()

    # One attempt; returns what is wrong with it. Sets the end of the episode where it is the last.
    def _attempt(self, sandbox: EpisodeSandbox) -> str:
        episode, options = self.episode, self.options
        try:
            text = self.ask().content
        except _Full:
            episode.end = EpisodeEnd.TOO_LONG
            if episode.result is None:
                said = (message for message in reversed(episode.messages) if message.role == "assistant")
                self.judge(text=next(said).content)
            return ""
        episode.attempts += 1
        wrong = self._try(sandbox, text) if episode.problem.task is None else ""
        is_last = episode.attempts == options.max_attempts or sandbox.is_destroyed
        if wrong and not is_last:
            return wrong
        result = self.judge(text=text)
        if result.is_pass:
            episode.end = EpisodeEnd.PASSED
        elif result.reward is None and result.status is not Status.ABSTAINED:
            episode.end = EpisodeEnd.CANNOT_BE_JUDGED
        elif is_last:
            episode.end = EpisodeEnd.DESTROYED if sandbox.is_destroyed else EpisodeEnd.NO_ATTEMPTS_LEFT
        return OTHERS_FAIL if episode.problem.task is None else told_of_task(result, episode.messages[-1])

    def _try(self, sandbox: EpisodeSandbox, text: str) -> str:
        episode, options = self.episode, self.options
        code = extract_code(Completion("", "", completion=text), episode.problem, options.extraction)
        if code is None:
            return CUT_OFF if is_cut_off(episode.messages[-1].finish_reason) else NO_CODE
        began = time.monotonic()
        wrong = try_shown(sandbox, episode.problem, code, episode.shown)
        episode.seconds["sandbox"] += time.monotonic() - began
        self.check_sandbox(sandbox.loss)
        return wrong


# The last verdict, with the sandboxes of those before it among its own: all but the first are reruns.
def _together(before: ScoredCompletion | None, last: ScoredCompletion) -> ScoredCompletion:
    if before is None:
        return last
    sandboxes, retries = before.sandboxes + last.sandboxes, before.retries + last.retries
    return replace(
        last,
        sandboxes=sandboxes,
        cells=before.cells + last.cells,
        isolation=last.isolation or before.isolation,
        sandbox_id=last.sandbox_id or before.sandbox_id,
        retries=retries,
        reruns=max(sandboxes - 1 - retries, 0),
        canaries=before.canaries + last.canaries,
        failures=(*before.failures, *last.failures),
        duration_seconds=before.duration_seconds + last.duration_seconds,
        cached=last.cached and not sandboxes,
    )


def _is_too_long(refusal: RequestRefusedError) -> bool:
    message = refusal.message.lower()
    return refusal.status in (400, 413, 422) and any(word in message for word in ("context", "too long", "max_model"))
