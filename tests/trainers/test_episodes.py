"""Episodes with tools in TRL's own trainer, parser and tool loop: a scripted policy, real sandboxes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="not installed: torch (make test-grpo)")
trl: Any = pytest.importorskip("trl", reason="not installed: trl (make test-grpo)")
datasets: Any = pytest.importorskip("datasets", reason="not installed: datasets (make test-grpo)")
tokenizers: Any = pytest.importorskip("tokenizers", reason="not installed: tokenizers (make test-grpo)")
transformers: Any = pytest.importorskip("transformers", reason="not installed: transformers (make test-grpo)")

from sandrl.config.words import ToolSet  # noqa: E402
from sandrl.problems import Problem, load_problems  # noqa: E402
from sandrl.rewards import Judge, RewardFunction, ScoreOptions, VerdictCache  # noqa: E402
from sandrl.rollouts.calls import tool_schemas  # noqa: E402
from sandrl.rollouts.environments import Environment  # noqa: E402
from sandrl.rollouts.sandbox import LOST, EpisodeSandbox, JobSandboxes  # noqa: E402
from sandrl.rollouts.shared_job import SharedJob  # noqa: E402
from sandrl.rollouts.task_tools import TASK_TOOLS  # noqa: E402
from sandrl.rollouts.tools import TOOLS  # noqa: E402
from sandrl.sandboxes import Interrupt, Job, connect, new_job_id  # noqa: E402
from sandrl.scoring import task_judging  # noqa: E402
from sandrl.settings import RuntimeKind, load_settings  # noqa: E402
from sandrl.trainers.episodes import (  # noqa: E402
    TaskEpisodes,
    environment_factory,
    episode_end,
    episode_trainer,
    message_rows,
)
from sandrl.trainers.rewarding import EpisodeRewards  # noqa: E402
from sandrl.trials.capacity import Capacity  # noqa: E402
from tests.support.assassin import Assassin  # noqa: E402
from tests.support.dead_daemon import kill_daemon  # noqa: E402
from tests.support.scripted_episode import (  # noqa: E402
    AFTER,
    MOST_CALLS,
    PROBLEM,
    SPENT,
    SUBMITTED,
    TIMEOUT_SECONDS,
    TOOL_SET,
    Call,
    count,
    told,
)
from tests.support.tasks.base import import_task_base  # noqa: E402
from tests.support.tasks.shell import write_shell_task  # noqa: E402

# In this process, TRL's and transformers' own warnings are not ours.
pytestmark = pytest.mark.filterwarnings("ignore")

RIGHT = {"code": "def f(x): return x + 1"}
_TURN = "<|im_start|>assistant"
_END = "<|im_end|>"
_LONGEST = 60_000


def tokenizer() -> Any:
    """A token for each byte, with the chat template of Qwen 3, in which the arguments of calls are JSON."""
    level = tokenizers.pre_tokenizers.ByteLevel
    alphabet = {letter: number for number, letter in enumerate(sorted(level.alphabet()))}
    whole = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=alphabet, merges=[]))
    whole.pre_tokenizer, whole.decoder = level(add_prefix_space=False), tokenizers.decoders.ByteLevel()
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=whole, eos_token=_END, pad_token="<|endoftext|>")
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    made.chat_template = trl.chat_template_utils.qwen3_chat_template
    return made


class ScriptedPolicy(transformers.Qwen2ForCausalLM):  # type: ignore[misc]
    """Says what it is told to, whatever it reads; its weights are trained like any other's."""

    tokens: Any
    says: Sequence[str]

    def generate(self, input_ids: Any, **_: Any) -> Any:
        """One more message for each conversation: the one whose turn it is."""
        turns = [self.tokens.decode(ids).count(_TURN) - 1 for ids in input_ids]
        (turn,) = {*turns}
        new = self.tokens(self.says[turn] + _END, return_tensors="pt")["input_ids"]
        return torch.cat([input_ids, new.expand(len(turns), -1)], dim=1)


def message(calls: Sequence[Call]) -> str:
    """A message as the policy writes it; arguments that are no JSON as a text, which JSON can be of anything."""
    written = [f'{{"name": "{call.name}", "arguments": {_as_json(call.arguments)}}}' for call in calls]
    return "\n".join(f"<tool_call>\n{each}\n</tool_call>" for each in written)


def _as_json(arguments: str) -> str:
    try:
        json.loads(arguments)
    except ValueError:
        return json.dumps(arguments)
    return arguments


Workshop = Callable[[str], EpisodeSandbox]


@pytest.fixture
def workshop() -> Iterator[Workshop]:
    connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=300) as job:
        yield partial(EpisodeSandbox, JobSandboxes(job), timeout_seconds=TIMEOUT_SECONDS)


Ended = tuple[list[dict[str, Any]], Environment]


def played(says: Sequence[str], max_calls: int, workshop: Workshop, directory: Path) -> list[Ended]:
    """Trains one step on two episodes; returns the conversation of each, and its environment as rewards see it."""
    ended: list[Ended] = []

    def reward(completions: list[Any], environments: list[Environment], **_: Any) -> list[float]:
        ended.extend(zip(completions, environments, strict=True))
        return [0.0, 1.0]

    train(says, max_calls, environment_factory(workshop, TOOL_SET, max_calls), PROBLEM, reward, directory)
    return ended


def train(says: Sequence[str], max_calls: int, factory: Any, problem: Problem, reward: Any, directory: Path) -> None:
    """Trains one step on two episodes, in the trainer of `sandrl grpo`."""
    row = {"prompt": [{"role": "user", "content": problem.prompt}], "task_id": problem.task_id}
    trained(episode_trainer(trl.GRPOTrainer), says, max_calls, factory, row, reward, directory)


def trained(
    trainer_class: Any, says: Sequence[str], max_calls: int, factory: Any, row: Any, reward: Any, directory: Path
) -> dict[str, Any]:
    """Trains one step on two episodes; returns what TRL logs of it."""
    sizes = {"vocab_size": 300, "hidden_size": 8, "intermediate_size": 8, "max_position_embeddings": _LONGEST}
    layers = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}
    policy = ScriptedPolicy(transformers.Qwen2Config(**sizes, **layers))
    policy.tokens, policy.says = tokenizer(), says
    arguments = trl.GRPOConfig(
        output_dir=str(directory),
        use_cpu=True,
        bf16=False,
        activation_checkpointing=False,
        max_steps=1,
        per_device_train_batch_size=2,
        num_generations=2,
        max_completion_length=_LONGEST // 2,
        max_tool_calling_iterations=max_calls,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        logging_steps=1,
    )
    trainer = trainer_class(
        model=policy,
        processing_class=policy.tokens,
        reward_funcs=reward,
        args=arguments,
        train_dataset=datasets.Dataset.from_list([row]),
        environment_factory=factory,
    )
    trainer.train()
    assert trainer.state.global_step == 1
    logged: dict[str, Any] = trainer.state.log_history[0]
    return logged


def rewards(ended: Sequence[Ended]) -> list[float | None]:
    completions, environments = zip(*ended, strict=True)
    with RewardFunction({PROBLEM.task_id: PROBLEM}) as function:
        return function(["?", "?"], completions, task_id=[PROBLEM.task_id] * 2, environments=environments)


def observations(completion: Sequence[dict[str, Any]]) -> list[str]:
    return [each["content"] for each in completion if each["role"] == "tool"]


def test_every_observation_is_the_one_that_is_expected_everywhere(workshop: Workshop, tmp_path: Path) -> None:
    script = [*SUBMITTED, AFTER]
    ended = played([*map(message, script), "Done."], 100, workshop, tmp_path)
    assert len(ended) == 2
    for completion, environment in ended:
        assert observations(completion) == told(script)
        assert (environment.toolbox.end, environment.toolbox.calls) == ("submitted", count(script))
    assert rewards(ended) == [1.0, 1.0]


def test_calls_are_counted_as_everywhere(workshop: Workshop, tmp_path: Path) -> None:
    for completion, environment in played([*map(message, SPENT), "Done."], MOST_CALLS, workshop, tmp_path):
        assert observations(completion) == told(SPENT)
        assert (environment.toolbox.end, environment.toolbox.calls) == ("no tool calls left", MOST_CALLS)
        assert environment.submission == ""


@pytest.mark.parametrize("said", ["I cannot do that.", '<tool_call>\n{"name": "execute_code", "argu\n</tool_call>'])
def test_a_message_in_which_no_call_can_be_read_is_the_last(said: str, workshop: Workshop, tmp_path: Path) -> None:
    for completion, environment in played([said], 4, workshop, tmp_path):
        assert environment.toolbox.end is None
        assert episode_end(message_rows([], completion)) == "no tool calls"


class KillsTheDaemon(tuple[str, ...]):
    """What a policy says; before its third message the daemon of the local runtime is killed."""

    __slots__ = ()

    def __getitem__(self, turn: Any) -> Any:
        if turn == 2:
            kill_daemon(load_settings().state_dir)
        return super().__getitem__(turn)


def test_an_episode_whose_daemon_is_killed_goes_on_with_its_files(workshop: Workshop, tmp_path: Path) -> None:
    append = {"code": "open('log', 'a').write('x'); print(len(open('log').read()))"}
    calls = [*[Call("execute_code", json.dumps(append), "")] * 3, Call("submit_solution", json.dumps(RIGHT), "")]
    says = KillsTheDaemon([*(message([call]) for call in calls), "Done."])
    ended = played(says, 9, workshop, tmp_path)
    assert [observations(completion) for completion, _ in ended] == [["1", "2", "3", "Submitted."]] * 2
    assert [(environment.toolbox.calls, environment.loss) for _, environment in ended] == [(4, "")] * 2
    assert rewards(ended) == [1.0, 1.0]


def test_an_episode_whose_sandbox_is_lost_has_no_reward_whatever_it_submits(workshop: Workshop, tmp_path: Path) -> None:
    with Assassin() as assassin:
        kill = Call("execute_code", json.dumps({"code": assassin.code}), LOST)
        submit = Call("submit_solution", json.dumps(RIGHT), LOST)
        ended = played([message([kill]), message([submit]), "Done."], 4, workshop, tmp_path)
    assert [observations(completion) for completion, _ in ended] == [[LOST, LOST]] * 2
    assert {environment.toolbox.end for _, environment in ended} == {"lost"}
    assert rewards(ended) == [None, None]


@pytest.mark.parametrize("tool_set", ToolSet)
def test_chat_templates_are_told_of_the_tools_what_endpoints_are(tool_set: ToolSet, workshop: Workshop) -> None:
    environment = environment_factory(workshop, tool_set, 1)()
    own = {"reset", "toolbox", "submission", "loss"}
    schemas = {schema["name"]: schema for schema in tool_schemas(TOOLS[tool_set])}
    assert {name for name in dir(environment) if re.match("[a-z]", name)} - own == schemas.keys()
    for name, schema in schemas.items():
        assert transformers.utils.get_json_schema(getattr(environment, name))["function"] == schema


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """A task whose reward is 1 if the file answer says `done`."""
    import_task_base(os.environ)
    place = tmp_path_factory.mktemp("tasks")
    (problem,) = load_problems(str(write_shell_task(place / "t"))).problems.values()
    return problem


def test_episodes_on_a_task_are_judged_where_they_were_played(
    task: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # TRL calls all episodes in turn: with room for one, the other one must not wait for its end.
    monkeypatch.setattr(task_judging, "capacity_of", lambda _: Capacity(1, 1.0))
    rewards: list[float | None] = []
    results: list[str] = []
    conversations: list[list[str]] = []
    connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
    function = EpisodeRewards(
        "job", emit=lambda _: None, interrupt=Interrupt(), on_result=lambda result, _: results.append(result.task_id)
    )

    def reward(completions: list[Any], environments: list[Environment], **columns: Any) -> list[float]:
        for environment in environments:
            environment.toolbox.close()
        conversations.extend(map(observations, completions))
        rewards.extend(function(completions=completions, environments=environments, **columns))
        return [0.0, 1.0]

    calls = [
        # Of two episodes in one directory each has its own machine: only the first file of a machine is made.
        Call("bash", json.dumps({"command": "id -un; [ ! -e answer ] && echo done > answer"}), ""),
        Call("rm", "{}", ""),
        Call("submit", "{}", ""),
        Call("bash", json.dumps({"command": "rm answer"}), ""),
    ]
    with (
        Job(connection, job_id=new_job_id(), max_lifetime_seconds=300) as job,
        SharedJob(job, Judge.on(connection), ScoreOptions(), VerdictCache()) as place,
    ):
        episodes = TaskEpisodes(place, {task.task_id: task}, 9)
        says = [*(message([call]) for call in calls), "Done."]
        try:
            train(says, 9, episodes.make_environment, task, reward, tmp_path)
        finally:
            episodes.close()
    unknown = "error: there is no tool 'rm'; the tools are bash, terminal, write_file, edit_file, submit"
    assert conversations == [["app", unknown, "Submitted.", "error: a solution was submitted before"]] * 2
    assert rewards == [1.0, 1.0]
    assert results == [task.task_id] * 2


def test_episodes_that_last_when_a_training_ends_are_given_up(task: Problem) -> None:
    connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=300) as job:
        with SharedJob(job, Judge.on(connection), ScoreOptions(), VerdictCache()) as place:
            episodes = TaskEpisodes(place, {task.task_id: task}, 9)
            environment: Any = episodes.make_environment()
            environment.reset(task_id=task.task_id)
            assert environment.bash(command="echo $((6 * 7))") == "42"
            episodes.close()
        assert environment.loss
    assert job.unstopped == ()


def test_tools_of_tasks_are_described_alike() -> None:
    unused: Any = None
    environment = TaskEpisodes(unused, {}, 1).make_environment()
    for schema in tool_schemas(TASK_TOOLS):
        assert transformers.utils.get_json_schema(getattr(environment, schema["name"]))["function"] == schema
