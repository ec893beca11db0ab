"""Completions of runs as documents of ATIF, read with the format's own models, and the way back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from atif import Trajectory
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sample_runs import trajectory, write_run

from sandrl.errors import InputError
from sandrl.rewards.importing import import_run
from sandrl.runs import RunReader, TrajectoryRow
from sandrl.runs.atif import document_of, export_run, messages_of
from sandrl.runs.config import RunConfig
from sandrl.runs.rows import BranchRow, MessageRow, ToolCallRow
from sandrl.settings import Settings, load_settings

RUN = RunConfig(run_id="r", command="art rollout", options={"model": "tiny"})

TALK = (
    MessageRow(role="system", content="Be brief."),
    MessageRow(role="user", content="Sum 1 and 2."),
    MessageRow(
        role="assistant",
        content="Two calls.",
        tool_calls=(
            ToolCallRow(id="a", name="bash", arguments='{"command": "expr 1 + 2"}'),
            ToolCallRow(id="b", name="bash", arguments='{"command":"true"}'),
        ),
        tokens=("token_id:5", "token_id:0"),
        logprobs=(-0.5, -1.25),
        finish_reason="tool_calls",
        seconds=0.5,
        reasoning="hm",
    ),
    MessageRow(role="tool", content="3\n", tool_call_id="a", name="bash", seconds=0.25),
    MessageRow(role="tool", content="", tool_call_id="b", name="bash"),
    MessageRow(role="assistant", content="3", tokens=("3", "é"), logprobs=(-0.5, -0.5), finish_reason="stop"),
)

BRANCHES = (
    BranchRow(
        messages=(
            MessageRow(role="user", content="Look it up."),
            MessageRow(role="assistant", content="I look.", is_given=True),
            MessageRow(role="assistant", content="It is 3.", tokens=("token_id:7",), logprobs=(-0.5,)),
        ),
        tools=({"name": "search"},),
    ),
    BranchRow(messages=(MessageRow(role="user", content="And this?"), MessageRow(role="assistant", content="4"))),
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(load_settings(), state_dir=tmp_path / "state", runs_dir=tmp_path / "runs")


def document(row: TrajectoryRow, **options: Any) -> Trajectory:
    return Trajectory.model_validate(document_of(row, RUN.model_copy(update={"options": RUN.options | options})))


def test_a_dialogue_has_the_results_of_its_calls_in_the_step_that_made_them() -> None:
    tools = [{"name": "bash", "description": "Runs.", "parameters": {"type": "object", "properties": {}}}]
    found = document(trajectory(messages=TALK, tokens={"prompt": 9, "completion": 4}), tool_schemas=tools)
    assert [step.source for step in found.steps] == ["system", "user", "agent", "agent"]
    assert found.agent.model_name == "tiny"
    assert found.agent.tool_definitions == [{"type": "function", "function": tools[0]}]
    calls, results = found.steps[2].tool_calls, found.steps[2].observation
    assert calls is not None
    assert results is not None
    assert [call.arguments for call in calls] == [{"command": "expr 1 + 2"}, {"command": "true"}]
    assert [(each.source_call_id, each.content) for each in results.results] == [("a", "3\n"), ("b", "")]
    metrics = found.steps[2].metrics
    assert metrics is not None
    assert (metrics.completion_token_ids, metrics.logprobs, metrics.completion_tokens) == ([5, 0], [-0.5, -1.25], 2)
    assert found.final_metrics is not None
    assert (found.final_metrics.total_prompt_tokens, found.final_metrics.total_completion_tokens) == (9, 4)
    assert found.extra is not None
    assert found.extra["sandrl"]["reward"] == 1.0


def test_messages_come_back_as_they_were() -> None:
    assert tuple(messages_of(document(trajectory(messages=TALK)).steps)) == TALK


def test_branches_are_sub_agents_of_the_document() -> None:
    found = document(trajectory(messages=TALK, tools=({"name": "bash"},), branches=BRANCHES))
    assert found.agent.tool_definitions == [{"type": "function", "function": {"name": "bash"}}]
    assert found.subagent_trajectories is not None
    first, second = found.subagent_trajectories
    assert [each.message for each in first.steps] == ["Look it up.", "I look.", "It is 3."]
    assert [each.is_copied_context for each in first.steps] == [None, True, None]
    assert first.agent.tool_definitions == [{"type": "function", "function": {"name": "search"}}]
    assert second.agent.tool_definitions is None
    assert "branches" not in (found.extra or {})["sandrl"]


def test_sub_agents_of_other_programs_are_branches(tmp_path: Path, settings: Settings) -> None:
    def said(name: str, text: str, *inner: object) -> dict[str, Any]:
        metrics = {"completion_token_ids": [1], "logprobs": [-1.0]}
        steps = [{"step_id": 1, "source": "agent", "message": text, "metrics": metrics}]
        whole = {"schema_version": "ATIF-v1.8", "trajectory_id": name, "agent": {"name": "a", "version": "1"}}
        return {**whole, "steps": steps, "subagent_trajectories": list(inner) or None}

    (tmp_path / "a.json").write_text(
        json.dumps(said("a", "main", said("b", "one", said("c", "deep")), said("d", "two")))
    )
    [row] = RunReader(import_run(tmp_path / "a.json", settings).path).trajectories().rows
    assert [each.content for each in row.messages] == ["main"]
    assert [[(each.content, each.tokens) for each in branch.messages] for branch in row.branches] == [
        [("one", ("token_id:1",))],
        [("deep", ("token_id:1",))],
        [("two", ("token_id:1",))],
    ]


texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=8)
calls = st.builds(
    ToolCallRow,
    id=st.just(""),
    name=texts,
    arguments=texts | st.dictionaries(texts, st.integers() | texts, max_size=2).map(json.dumps),
)


@given(
    st.lists(
        st.builds(MessageRow, role=st.sampled_from(["system", "user"]), content=texts)
        | st.builds(
            MessageRow, role=st.just("assistant"), content=texts, tool_calls=st.lists(calls, max_size=2).map(tuple)
        ),
        min_size=1,
        max_size=6,
    )
)
def test_every_dialogue_is_a_valid_document(messages: list[MessageRow]) -> None:
    back = tuple(messages_of(document(trajectory(messages=tuple(messages))).steps))
    assert [(each.role, each.content) for each in back] == [(each.role, each.content) for each in messages]
    given_calls = [(call.name, call.arguments) for each in messages for call in each.tool_calls]
    assert [(call.name, call.arguments) for each in back for call in each.tool_calls] == given_calls


def test_what_was_exported_is_imported_as_it_was(tmp_path: Path, settings: Settings) -> None:
    rows = [
        trajectory(0, messages=TALK, step=2, components={"short": 0.5}),
        trajectory(1, reward=None, status="infrastructure", detail="lost", trust=None, passed=0, step=2),
        trajectory(2, id="../evil\n" * 50, reward=0.0, status="failed", passed=0, step=3),
        trajectory(3, messages=TALK[:3], tools=({"name": "bash"},), branches=BRANCHES, step=3),
    ]
    path = write_run(tmp_path / "runs", rows)
    assert export_run(RunReader(path), tmp_path / "out").documents == 4
    assert all(each.parent == tmp_path / "out" for each in (tmp_path / "out").iterdir())
    made = import_run(tmp_path / "out", settings, name="back")
    assert (made.completions, made.unrewarded) == (4, 1)
    back = RunReader(made.path).trajectories().rows
    left = {"job_id", "time", "sandbox_id", "dropped"}
    before = RunReader(path).trajectories().rows
    assert [each.model_dump(exclude=left) for each in back] == [each.model_dump(exclude=left) for each in before]
    assert {row.step for row in RunReader(made.path).metrics().rows} == {2, 3}


def test_turns_that_no_model_has_made_have_no_tokens() -> None:
    steps = [
        {"step_id": 1, "source": "user", "message": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {
            "step_id": 2,
            "source": "agent",
            "message": "copied",
            "is_copied_context": True,
            "metrics": {"completion_token_ids": [1], "logprobs": [-1.0]},
        },
        {"step_id": 3, "source": "agent", "message": "own", "metrics": {"completion_token_ids": [1], "logprobs": [-1]}},
        {"step_id": 4, "source": "agent", "message": "", "observation": {"results": [{"content": "$ "}]}},
    ]
    read = Trajectory.model_validate(
        {"schema_version": "ATIF-v1.8", "agent": {"name": "a", "version": "1"}, "steps": steps}
    )
    found = list(messages_of(read.steps))
    assert [(each.role, each.content, each.tokens) for each in found] == [
        ("user", "ab", ()),
        ("assistant", "copied", ()),
        ("assistant", "own", ("token_id:1",)),
        ("assistant", "", ()),
        ("user", "$ ", ()),
    ]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.json", "{", "is not JSON"),
        ("a.json", '{"schema_version": "ATIF-v1.8", "steps": []}', "is not a document of ATIF: agent: Field required"),
        ("a.json", "[" * 100_000, "is not JSON"),
        ("a.jsonl", '{"schema_version": 1}\n', "is not a document of ATIF"),
    ],
)
def test_what_is_no_document_is_refused(tmp_path: Path, settings: Settings, name: str, content: str, told: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=told):
        import_run(tmp_path / name, settings)
    assert not (tmp_path / "runs").exists()


def test_a_directory_without_anything_to_import_is_refused(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/other.json").write_text('{"a": 1}')
    with pytest.raises(InputError, match="has neither documents of ATIF nor trials of Harbor"):
        import_run(tmp_path / "in", settings)
