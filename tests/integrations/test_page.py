"""The page about integrations is held against the code, and what it shows is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sandrl.integrations import verl

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "integrations.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python(?: \{ \.fragment \})?\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def needs(block: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.needs(name) for name in ("openenv", "skyrl_gym", "verifiers") if name in block]


@pytest.mark.parametrize(
    "block",
    [pytest.param(block, marks=needs(block)) for block in BLOCKS],
    ids=lambda block: re.findall(r"(?:from|import) ([\w.]+)", block)[-1],
)
def test_the_code_of_the_page_runs(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "skyrl_gym" in block:
        import skyrl_gym

        monkeypatch.setattr("skyrl_gym.envs.registration.registry", dict(skyrl_gym.registry))
    exec(compile(block, "integrations.md", "exec"), {"__name__": "page"})


def test_each_function_that_the_page_names_for_verl_is_there() -> None:
    named = re.findall(r"^\| `(compute_\w+)` \|", PAGE, re.MULTILINE)
    public = [name for name, value in vars(verl).items() if name.startswith("compute_") and callable(value)]
    assert sorted(named) == sorted(public)
