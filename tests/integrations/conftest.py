"""The adapters with their real frameworks, in this process and over a real `sandrl serve`.

Each framework's tests are skipped where it is not installed; `make test-integrations` has all but OpenEnv, which is in
`make test-frameworks`.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandrl.integrations import backend
from tests.integrations.serving import Serving, serving

# Loaded from a file, because frameworks name a set and never pass problems.
PROBLEMS = [
    {"task_id": "inc", "prompt": "Add one: `f(x)`.", "tests": ["assert f(1) == 2", "assert f(2) == 3"]},
    # Nothing can be said about a completion, because the problem's own code fails.
    {
        "task_id": "broken",
        "prompt": "Add one: `f(x)`.",
        "tests": ["assert f(1) == 2"],
        "setup": "import nothing_of_this_name",
        "reference": "def f(x):\n    return x + 1\n",
    },
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for mark in item.iter_markers("needs"):
                missing = [name for name in mark.args if not importlib.util.find_spec(name)]
                if missing:
                    reason = f"not installed: {', '.join(missing)} (make test-integrations, make test-frameworks)"
                    item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def problem_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("problems") / "problems.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in PROBLEMS), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="session")
def service() -> Iterator[Serving]:
    with serving() as running:
        yield running


@pytest.fixture(params=["sandboxes", "service"])
def place(request: pytest.FixtureRequest) -> str | None:
    if request.param == "sandboxes":
        return None
    running: Serving = request.getfixturevalue("service")
    return running.url


@pytest.fixture(scope="session", autouse=True)
def _backends_end_before_the_runtime() -> Iterator[None]:
    yield
    for shared in tuple(backend._shared._known.values()):
        shared.close()
