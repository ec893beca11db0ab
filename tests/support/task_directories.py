"""Task directories for tests: the least that is a task, and what a test adds to it or takes away."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

HARBOR: Mapping[str, str | None] = {
    "task.toml": '[environment]\ndocker_image = "debian:13"\n',
    "instruction.md": "Do it.\n",
    "tests/test.sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n",
    "solution/solve.sh": "#!/bin/bash\ntrue\n",
}

TERMINAL_BENCH: Mapping[str, str | None] = {
    "task.yaml": "instruction: |-\n  Do it.\ndifficulty: easy\n",
    "Dockerfile": "FROM debian:13\n",
    "run-tests.sh": "#!/bin/bash\npytest $TEST_DIR/test_outputs.py -rA\n",
    "solution.sh": "#!/bin/bash\ntrue\n",
    "tests/test_outputs.py": "def test_it():\n    assert True\n",
}


def write_task(
    directory: Path, files: Mapping[str, str | None] | None = None, base: Mapping[str, str | None] = HARBOR
) -> Path:
    """Writes a task with more or other files than the least; None for a text leaves its file out."""
    for name, text in {**base, **(files or {})}.items():
        if text is None:
            continue
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if name.endswith(".sh"):
            path.chmod(0o755)
    return directory
