"""One encoding for tags, the same when creating and when looking for them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from sandrl.sandboxes.tags import encode_tag, job_tags, problem_tag

LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)


@given(st.text(st.characters(), max_size=200))
def test_every_text_becomes_a_kubernetes_label_value(text: str) -> None:
    assert LABEL.fullmatch(encode_tag(text))


@given(st.from_regex(LABEL, fullmatch=True))
def test_a_valid_tag_stands_for_itself(text: str) -> None:
    assert encode_tag(text) == text


@given(st.text(max_size=80))
def test_encoding_twice_is_encoding_once(text: str) -> None:
    assert encode_tag(encode_tag(text)) == encode_tag(text)


@given(st.sets(st.text(max_size=100), min_size=2, max_size=2))
def test_two_texts_have_two_tags(texts: set[str]) -> None:
    assert len({encode_tag(text) for text in texts}) == 2


def test_tags_stay_readable() -> None:
    assert encode_tag("model:Qwen/Qwen2.5-0.5B").startswith("model-Qwen-Qwen2.5-0.5B-")
    assert problem_tag("mbpp-11") == "problem-mbpp-11"


def test_a_jobs_tags_name_job_owner_and_surroundings() -> None:
    environment = {"SLURM_JOB_ID": "77", "WANDB_RUN_ID": "", "SANDRL_ENV": "staging"}
    tags = job_tags("job-0a1b2c3d", "abc123", ["mine", "mine"], environment)
    assert tags == (
        "rl-training",
        "job-0a1b2c3d",
        "owner-abc123",
        encode_tag("slurm-job:77"),
        encode_tag("env:staging"),
        "mine",
    )
