"""`sandrl init` writes a project whose files run as they are, and never touches a file that was there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandrl.config.eval import EvalConfig
from sandrl.config.grpo import GrpoConfig
from sandrl.config.layers import resolve
from sandrl.config.toml import read_toml
from sandrl.project import create_project
from tests.cli.conftest import Run
from tests.support.pages import Block, page_of

NAME = "my prøject 'x'"
FILES = [
    *(".github/workflows/rewards.yml", ".gitignore", "README.md", "ci/check.sh", "ci/install.sh", "completions.jsonl"),
    *("grpo.toml", "problems.jsonl", "rewards.py", "sandrl.toml", "test_rewards.py"),
]


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def bash(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def commands_of_readme(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("tests.support.pages.ROOT", folder)
    blocks: list[Block] = [each for each in page_of(folder / "README.md").blocks if each.language == "sh"]
    [block] = blocks
    return block.text


def test_the_files_of_a_new_project_run_as_they_are(
    sandrl: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = sandrl("init", NAME)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / NAME
    assert files_of(folder) == sorted(FILES)
    assert done.stdout.splitlines() == [f"{NAME}/{name}" for name in sorted(FILES)]
    # The page of the documentation about projects runs the checks of CI.
    commands = commands_of_readme(folder, monkeypatch)
    assert "sh ci/check.sh" in commands
    ran = bash(commands.replace("sh ci/check.sh", "pytest --quiet -p no:cacheprovider"), folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Pass rate: 4/6 (67%)" in ran.stdout
    assert "References that pass: 3/3" in ran.stdout
    assert "Verdict: held" in ran.stdout
    assert "3 passed in" in ran.stdout
    assert "checks that accept an answer" not in ran.stdout.lower()


@pytest.mark.slow
def test_the_commands_of_the_workflow_pass_and_stop_a_bad_change(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    folder = create_project(tmp_path / NAME).directory
    workflow = yaml.safe_load((folder / ".github" / "workflows" / "rewards.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["check"]["steps"]
    lines = [step["run"] for step in steps if "run" in step]
    assert lines[-1] == "sh ci/check.sh"
    for line in lines:
        ran = bash(line, folder)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    problems = folder / "problems.jsonl"
    text = problems.read_text(encoding="utf-8")
    weak = text.replace("assert recent.keys() == ['y']", "assert Recent(1)").replace(
        "\"tests\": [\"assert runs('aab') == [('a', 2), ('b', 1)]\", ", '"tests": ["assert runs(1)"], "x": ['
    )
    for changed, complaint in (
        (text.replace("balance += int(amount)", "balance += 1"), "References that pass: 2/3"),
        (weak.replace("groupby(text)", "groupby(str(text))"), "Verdict: not held"),
    ):
        assert changed != text
        problems.write_text(changed, encoding="utf-8")
        # The test of the reward function has its own expectation of the completions.
        ran = bash("sed -i '/^python3/d' ci/check.sh; sh ci/check.sh", folder)
        assert ran.returncode == 1, ran.stdout + ran.stderr
        assert complaint in ran.stdout


def test_the_configurations_are_valid_also_with_the_lines_for_an_own_model(tmp_path: Path) -> None:
    directory = create_project(tmp_path / "project").directory
    shared = resolve(EvalConfig, read_toml(EvalConfig, directory / "sandrl.toml"))
    assert (shared.problems, shared.reward) == ("problems.jsonl", "rewards:reward")
    path = directory / "grpo.toml"
    config = resolve(GrpoConfig, read_toml(GrpoConfig, path))
    assert (config.is_tiny, config.problems, config.reward) == (True, "tiny", "rewards:reward")
    lines = path.read_text(encoding="utf-8").splitlines()
    others = [line.removeprefix("#   ") for line in lines if line.startswith("#   ")]
    kept = [line for line in lines if not line.startswith(("#", "model", "problems"))]
    path.write_text("\n".join([*others, *kept]), encoding="utf-8")
    own = resolve(GrpoConfig, read_toml(GrpoConfig, path))
    assert (own.model, own.problems) == ("Qwen/Qwen2.5-Coder-0.5B-Instruct", "problems.jsonl")
    assert (own.eval_problems, own.groups) == (0, 3)


def test_where_sandrl_is_not_on_the_path_the_next_command_and_the_script_say_so(sandrl: Run, tmp_path: Path) -> None:
    done = sandrl("init", "project", PATH="/usr/bin:/bin")
    [line] = [line for line in done.stderr.splitlines() if line.startswith("Next: ")]
    assert line == f"Next: cd project && PATH={Path(sys.executable).parent}:$PATH sh ci/check.sh"
    without = bash("PATH=/usr/bin:/bin sh project/ci/check.sh", tmp_path)
    assert (without.returncode, without.stdout) == (2, "")
    assert without.stderr.startswith("ci/check.sh: there is no command sandrl on the PATH; ")


def test_an_existing_file_is_named_and_nothing_is_written(sandrl: Run, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / ".gitignore").symlink_to("nowhere")
    done = sandrl("init")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "sandrl: error: .: these files exist: .gitignore, README.md; nothing was written",
        "  hint: choose another directory, or write only the other files: sandrl init --keep-existing",
    ]
    assert files_of(tmp_path) == ["README.md"]


def test_existing_files_can_be_kept(sandrl: Run, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    done = sandrl("init", ".", "--keep-existing", "--json")
    document = json.loads(done.stdout)
    assert document["kept"] == ["README.md"]
    assert sorted([*document["written"], "README.md"]) == sorted(FILES) == files_of(tmp_path)
    assert document["directory"] == str(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"
    again = sandrl("init", ".", "--keep-existing")
    assert (again.returncode, again.stdout) == (0, "")


def test_what_cannot_be_finished_is_not_begun(sandrl: Run, tmp_path: Path) -> None:
    # A file where a directory must be: files before it in the order have been written by then.
    (tmp_path / "ci").write_text("mine")
    done = sandrl("init")
    assert done.returncode == 2
    assert done.stderr == "sandrl: error: ci: cannot be written: File exists; nothing was written\n"
    assert files_of(tmp_path) == ["ci"]
    assert not (tmp_path / ".github").exists()
    file = sandrl("init", "ci")
    assert file.stderr.startswith("sandrl: error: ci: is not a directory; nothing was written\n")
    unwritable = sandrl("init", "/proc/new/project")
    assert unwritable.returncode == 2
    assert unwritable.stderr.startswith("sandrl: error: /proc/new: cannot be written: ")
