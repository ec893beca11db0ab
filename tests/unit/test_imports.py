"""What importing costs: nothing heavy behind `--help`, nothing but the standard library behind `import sandrl`."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import sandrl

SOURCES = Path(sandrl.__file__).parents[1]
HEAVY = {
    "torch", "trl", "transformers", "unsloth", "art", "tinker", "vllm", "datasets", "wandb", "openai", "numpy",
    "tensorboard", "mlflow", "trackio",
    "ray", "grpc", "google", "cwsandbox",
}  # fmt: skip


def modules_after(code: str, *options: str) -> set[str]:
    program = (
        f"import sys; sys.path.insert(0, {str(SOURCES)!r})\n{code}\nimport json; print(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run([sys.executable, *options, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_help_loads_no_heavy_module() -> None:
    loaded = modules_after(
        "sys.argv = ['sandrl', '--help']\n"
        "from sandrl.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code"
    )
    assert "sandrl.cli.app" in loaded
    assert {name.partition(".")[0] for name in loaded} & HEAVY == set()


def test_the_package_imports_without_site_packages_and_loads_nothing_else() -> None:
    loaded = modules_after("import sandrl", "-I", "-S")
    assert {name for name in loaded if name.startswith("sandrl")} == {"sandrl"}


def test_every_public_name_can_be_loaded() -> None:
    for name in sandrl.__all__:
        assert getattr(sandrl, name).__name__ == name


def test_the_public_names_are_those_that_type_checkers_see() -> None:
    tree = ast.parse(Path(sandrl.__file__).read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.name: node.module for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert sorted(imported) == sorted(sandrl.__all__)
    assert {name: sandrl._MODULE_OF.get(name, "sandrl.errors") for name in imported} == imported


def test_the_public_packages_are_attributes_before_any_other_name_is_used() -> None:
    loaded = modules_after("import sandrl; sandrl.rewards.ScoreOptions; sandrl.events.Emit; sandrl.client")
    assert {"sandrl.rewards", "sandrl.events", "sandrl.client"} <= loaded


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = sandrl.nonsense
