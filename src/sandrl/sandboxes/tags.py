"""The tags of a sandbox, and the one encoding that makes any text a tag.

Encoding is a pure function of the text, used when a sandbox is created and when one is looked for. So `--tag
model:Qwen/Qwen2.5-0.5B` finds the sandboxes that were created with that text, although the service stores another text.

A tag must be acceptable as a Kubernetes label value: at most 63 characters of `[A-Za-z0-9._-]`, the first and last
of them a letter or digit. Text that already is stays as it is. In any other text each run of other characters
becomes one `-`, and eight hex digits of its SHA-256 are appended, so that two texts never share a tag by accident.

Every sandbox has tags for where it comes from: `rl-training`, `job-…`, `owner-…`, from the environment `wandb-run:…`,
`slurm-job:…` and `env:…`; for its work `problem-…` and, in training, `step-…`. The user adds which model it serves:
`--tag model:NAME`.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from functools import lru_cache

from sandrl.errors import UsageError

MAX_TAG_CHARACTERS = 63
TRAINING_TAG = "rl-training"

_VALID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_DIGEST_CHARACTERS = 8
# What is worth knowing of the environment a job runs in, and how its tag begins.
_ENVIRONMENT = {"WANDB_RUN_ID": "wandb-run:", "SLURM_JOB_ID": "slurm-job:", "SANDRL_ENV": "env:"}


def encode_tag(text: str) -> str:
    """The tag that stands for a text; text that is a valid tag stands for itself."""
    if _VALID.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    head = re.sub(r"[^A-Za-z0-9._-]+", "-", text)[: MAX_TAG_CHARACTERS - _DIGEST_CHARACTERS - 1].strip("._-")
    return f"{head}-{digest}" if head else digest


def new_job_id() -> str:
    return f"job-{secrets.token_hex(4)}"


def checked_job_id(text: str) -> str:
    """Checks a job id that the user gave.

    Raises:
        UsageError: If it is not a valid tag.
    """
    if not _VALID.fullmatch(text):
        raise UsageError(
            f"job_id {text!r} is not a valid tag",
            hint="use up to 63 letters, digits, '.', '_' and '-'; the first and last must be a letter or digit",
            fields=("job_id",),
        )
    return text


def job_tag(job_id: str) -> str:
    return encode_tag(job_id)


def owner_tag(owner_hash: str) -> str:
    return f"owner-{owner_hash}"


@lru_cache(maxsize=1024)
def problem_tag(task_id: str) -> str:
    return encode_tag(f"problem-{task_id}")


def step_tag(step: int) -> str:
    return f"step-{step}"


def job_tags(
    job_id: str, owner_hash: str, extra: Iterable[str] = (), environment: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The tags every sandbox of a job carries, in order and each once.

    Args:
        extra: The user's own and the workflow's tags, as text.
    """
    environment = os.environ if environment is None else environment
    found = [prefix + environment[name] for name, prefix in _ENVIRONMENT.items() if environment.get(name)]
    texts = [TRAINING_TAG, job_id, owner_tag(owner_hash), *found, *extra]
    return tuple(dict.fromkeys(encode_tag(text) for text in texts))
