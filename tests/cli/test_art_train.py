"""`sandrl art train` where nothing can be trained: what is missing is said before anything is loaded or made."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandrl.installation import install_command
from sandrl.models.libraries import gpu_count
from tests.cli.conftest import Run

HAS_ART = importlib.util.find_spec("art") is not None


@pytest.mark.skipif(gpu_count() > 0, reason="this machine has a GPU")
def test_without_a_gpu_the_local_backend_is_one_clear_line(sandrl: Run, tmp_path: Path) -> None:
    done = sandrl("art", "train", "--backend", "local", "--runs-dir", tmp_path / "runs")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "Backend: local (requested), model Qwen/Qwen3-8B",
        "sandrl: error: --backend local needs a GPU with CUDA, and this machine has none",
        "  hint: --backend tinker trains elsewhere; --backend embedded trains a small model on the processor",
    ]
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(gpu_count() > 0, reason="this machine has a GPU")
def test_nothing_heavy_is_loaded_to_find_that_out(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from sandrl.errors import HardwareError\n"
        "from sandrl.settings import load_settings\n"
        "from sandrl.trainers.art.plan import make_request\n"
        "from sandrl.trainers.art.train import run_art\n"
        "try:\n"
        "    run_art(make_request({'backend': 'local'}, load_settings()), load_settings())\n"
        "except HardwareError:\n"
        "    print(sorted({'torch', 'art', 'tinker', 'transformers', 'openai', 'numpy'} & {*sys.modules}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=os.environ, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.skipif(HAS_ART, reason="ART is installed here")
@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("art train", ""),
        ("art train --backend tinker", ""),
        ("art train --backend tinker --dry-run", "tml-key-of-nobody"),
        ("art train --backend embedded", ""),
        ("art train --dry-run", ""),
        ("tinker serve", ""),
    ],
)
def test_without_the_extra_the_line_that_installs_it_is_shown(
    sandrl: Run, tmp_path: Path, words: str, key: str
) -> None:
    done = sandrl(*words.split(), ART_TINKER_API_KEY=key)
    assert done.returncode == 2
    error, hint = done.stderr.splitlines()[-2:]
    assert error.startswith("sandrl: error: the package ")
    extra = "tinker" if words == "tinker serve" else "art-tinker"
    assert hint == f"  hint: {install_command(extra, directory=tmp_path)}"
    assert "tml-key" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_run_that_exists_is_neither_overwritten_nor_joined(sandrl: Run, tmp_path: Path) -> None:
    (tmp_path / "runs" / "train-001").mkdir(parents=True)
    done = sandrl("art", "train", "--runs-dir", tmp_path / "runs")
    assert done.returncode == 2
    assert "the run 'train-001' already exists" in done.stderr
    assert "(sandrl art train --resume train-001), or choose another --run-name" in done.stderr


def test_options_that_contradict_each_other_are_named(sandrl: Run) -> None:
    done = sandrl("art", "train", "--backend", "tinker", "--policy", "trained", "--model", "gpt-5.1-codex-mini")
    assert done.returncode == 2
    assert "--model: names a teacher, but the trained model acts itself" in done.stderr
    problems = sandrl("art", "train", "--samples", "4", "--batch-size", "48", "--num-problems", "10")
    assert problems.returncode == 2
    assert "--batch-size: needs 12 problems, and --num-problems is 10" in problems.stderr
    old = sandrl("art", "train", "--num-steps", "3")
    assert old.returncode == 2
    assert "did you mean --steps 3?" in old.stderr


def test_what_is_printed_is_read_back(sandrl: Run, tmp_path: Path) -> None:
    words = ("--policy", "trained", "--steps", "7", "--reward", "fraction", "--no-cache", "--run-name", "mine")
    printed = sandrl("art", "train", *words, "--print-config")
    assert printed.returncode == 0, printed.stderr
    (tmp_path / "mine.toml").write_text(printed.stdout, encoding="utf-8")
    again = sandrl("art", "train", "--config", "mine.toml", "--print-config", "--steps", "8")
    assert again.stdout == printed.stdout.replace("steps = 7", "steps = 8")
    assert not (tmp_path / "runs").exists()
