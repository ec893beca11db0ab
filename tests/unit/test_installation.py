"""Which command adds an extra, for each way to install sandrl; `tests/package` runs these commands."""

from __future__ import annotations

import importlib.util
import json
import shlex
import subprocess
import sys
import sysconfig
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from tools import setup_venv

import sandrl.installation as module
from sandrl.installation import Installation, Kind, again_command, install_command, look_at


class Distribution:
    def __init__(self, direct_url: str | None) -> None:
        self.direct_url = direct_url

    def read_text(self, name: str) -> str | None:
        return self.direct_url


@pytest.fixture(autouse=True)
def _from_an_index_with_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    came_from(monkeypatch, None)
    # The tests may run in an environment of uv's, which has no pip.
    find = importlib.util.find_spec
    pip = ModuleSpec("pip", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *words: pip if name == "pip" else find(name, *words))


def came_from(monkeypatch: pytest.MonkeyPatch, direct_url: object) -> None:
    """Pretends that sandrl is installed, and nothing else, from a URL (PEP 610) or an index."""
    text = None if direct_url is None else json.dumps(direct_url)

    def distribution(name: str) -> Distribution:
        if name != "sandrl":
            raise metadata.PackageNotFoundError(name)
        return Distribution(text)

    monkeypatch.setattr(metadata, "distribution", distribution)


def environment(path: Path, *files: str, config: str = "home = /usr/bin\n") -> Path:
    """Makes a directory that looks like a virtual environment."""
    (path / "bin").mkdir(parents=True)
    (path / "pyvenv.cfg").write_text(config)
    for name in files:
        (path / name).write_text("{}" if name.endswith("json") else "")
    return path


def looked_at(path: Path) -> Installation:
    return look_at(path, path / "bin" / "python", is_virtual=True)


def test_a_virtual_environment_of_uv_has_no_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = environment(tmp_path / "my env", config="home = /usr/bin\nuv = 0.9.1\n")
    assert looked_at(path).kind is Kind.PIP  # `uv venv --seed` installs pip
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = looked_at(path)
    assert found.kind is Kind.UV_PIP
    assert found.command(extra="hub") == f"uv pip install --python '{path}/bin/python' 'sandrl[hub]'"


def test_without_pip_and_uv_a_pip_from_elsewhere_installs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = environment(tmp_path / "env")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert looked_at(path).command(package="ray[client]") == f"pip --python {path}/bin/python install 'ray[client]'"
    (tmp_path / "uv").touch(mode=0o755)
    assert looked_at(path).command(extra="ray") == f"uv pip install --python {path}/bin/python 'sandrl[ray]'"


def test_the_interpreter_is_named_where_the_pip_on_the_path_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = environment(tmp_path / "env"), environment(tmp_path / "other")
    for each in (path, other):
        (each / "bin" / "pip").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{path}/bin:{other}/bin")
    assert looked_at(path).command(extra="hub") == "pip install 'sandrl[hub]'"
    monkeypatch.setenv("PATH", f"{other}/bin:{path}/bin")
    assert looked_at(path).command(extra="hub") == f"{path}/bin/python -m pip install 'sandrl[hub]'"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert looked_at(path).command(extra="hub") == f"{path}/bin/python -m pip install 'sandrl[hub]'"


def test_the_system_s_pip_is_told_to_change_a_managed_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "EXTERNALLY-MANAGED").touch()
    real = sysconfig.get_path
    monkeypatch.setattr(
        sysconfig, "get_path", lambda name, **rest: str(tmp_path) if name == "stdlib" else real(name, **rest)
    )
    python = tmp_path / "bin" / "python3"
    line = f"{python} -m pip install --break-system-packages 'sandrl[hub]'"
    assert look_at(tmp_path, python, is_virtual=False).command(extra="hub") == line
    assert look_at(tmp_path, python, is_virtual=True).command(extra="hub") == line.replace(
        "--break-system-packages ", ""
    )


@pytest.mark.parametrize(
    ("requirements", "extra", "package", "expected"),
    [
        ('[{ name = "sandrl" }]', "hub", None, "uv tool install 'sandrl[hub]'"),
        (
            '[{ name = "sandrl", extras = ["wandb", "client"], specifier = ">=0.1" }]',
            "hub",
            None,
            "uv tool install 'sandrl[client,hub,wandb]>=0.1'",
        ),
        (
            '[{ name = "sandrl", extras = ["client"] }, { name = "ray", extras = ["client"], specifier = "<3" }]',
            "hub",
            None,
            "uv tool install 'sandrl[client,hub]' --with 'ray[client]<3'",
        ),
        (
            '[{ name = "sandrl", extras = ["grpo"] }]',
            None,
            "trl[vllm]",
            "uv tool install 'sandrl[grpo]' --with 'trl[vllm]'",
        ),
    ],
)
def test_a_tool_of_uv_keeps_its_extras_and_packages(
    tmp_path: Path, requirements: str, extra: str | None, package: str | None, expected: str
) -> None:
    path = environment(tmp_path / "sandrl")
    (path / "uv-receipt.toml").write_text(f"[tool]\nrequirements = {requirements}\n")
    found = looked_at(path)
    assert found.kind is Kind.UV_TOOL
    assert found.command(extra=extra, package=package) == expected


def test_a_receipt_that_cannot_be_read_lists_nothing(tmp_path: Path) -> None:
    path = environment(tmp_path / "sandrl")
    (path / "uv-receipt.toml").write_text("[tool")
    assert looked_at(path).command(extra="hub") == "uv tool install 'sandrl[hub]'"


@pytest.mark.parametrize(
    ("package_or_url", "suffix", "expected"),
    [
        ("sandrl", "", "pipx install --force 'sandrl[hub]'"),
        ("sandrl[client,wandb]==0.1.0", "", "pipx install --force 'sandrl[client,hub,wandb]==0.1.0'"),
        ("sandrl", "@next", "pipx install --force --suffix=@next 'sandrl[hub]'"),
    ],
)
def test_a_tool_of_pipx_keeps_its_extras(tmp_path: Path, package_or_url: str, suffix: str, expected: str) -> None:
    path = environment(tmp_path / "venvs" / "sandrl")
    main = {"main_package": {"package_or_url": package_or_url, "suffix": suffix}}
    (path / "pipx_metadata.json").write_text(json.dumps(main))
    found = looked_at(path)
    assert found.kind is Kind.PIPX
    assert found.command(extra="hub") == expected
    assert found.command(package="trl[vllm]") == "pipx inject sandrl 'trl[vllm]'"


def test_the_source_of_a_tool_is_kept_while_it_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = environment(tmp_path / "venvs" / "sandrl", "pipx_metadata.json")
    wheel = tmp_path / "sandrl-0.1.0-py3-none-any.whl"
    came_from(monkeypatch, {"url": wheel.as_uri(), "archive_info": {}})
    assert looked_at(path).command(extra="hub") == "pipx runpip sandrl install 'sandrl[hub]'"
    wheel.touch()
    assert looked_at(path).command(extra="hub") == f"pipx install --force 'sandrl[hub] @ {wheel.as_uri()}'"
    git = {"url": "https://host.example/sandrl", "vcs_info": {"vcs": "git", "requested_revision": "v1"}}
    came_from(monkeypatch, git)
    assert (
        looked_at(path).command(extra="hub")
        == "pipx install --force 'sandrl[hub] @ git+https://host.example/sandrl@v1'"
    )


@pytest.mark.parametrize("login", ["", "name:secret@", "name:sec@ret@", "token:@"])
def test_the_command_has_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: str) -> None:
    path = environment(tmp_path / "sandrl", "uv-receipt.toml")
    came_from(monkeypatch, {"url": f"https://{login}host.example/a:b@c/sandrl", "vcs_info": {"vcs": "git"}})
    expected = "uv tool install 'sandrl[hub] @ git+https://host.example/a:b@c/sandrl'"
    assert looked_at(path).command(extra="hub") == expected


def test_the_command_keeps_a_user_without_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = environment(tmp_path / "sandrl", "uv-receipt.toml")
    came_from(monkeypatch, {"url": "ssh://git@host.example/sandrl", "vcs_info": {"vcs": "git"}})
    assert "git+ssh://git@host.example/sandrl" in looked_at(path).command(extra="hub")


@pytest.mark.parametrize(
    "word", ["a; touch x", "$(touch x)", "`touch x`", "a'; touch x; '", "a[$(touch x)]", "a['$(touch x)]"]
)
def test_a_shell_runs_nothing_that_a_url_or_directory_contains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    came_from(monkeypatch, {"url": f"https://host.example/{word}", "archive_info": {}})
    tool = environment(tmp_path / "tool", "uv-receipt.toml")
    assert shlex.split(looked_at(tool).command(extra="hub"))[-1] == f"sandrl[hub] @ https://host.example/{word}"
    came_from(monkeypatch, None)
    plain = environment(tmp_path / word)
    assert shlex.split(looked_at(plain).command(extra="hub"))[0] == str(plain / "bin" / "python")


def test_a_tool_that_runs_a_checkout_keeps_running_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    came_from(monkeypatch, {"url": (tmp_path / "my clone").as_uri(), "dir_info": {"editable": True}})
    uv = environment(tmp_path / "uv", "uv-receipt.toml")
    assert looked_at(uv).command(extra="hub") == f"uv tool install --editable '{tmp_path}/my clone[hub]'"
    pipx = environment(tmp_path / "pipx", "pipx_metadata.json")
    assert looked_at(pipx).command(extra="hub") == f"pipx install --force --editable '{tmp_path}/my clone[hub]'"


def test_environments_in_a_cache_are_not_changed(tmp_path: Path) -> None:
    uvx = environment(tmp_path / "uv" / "archive-v0" / "x1", config="uv = 0.9.1\n")
    assert looked_at(uvx).command(extra="hub") == "uvx --from 'sandrl[hub]' sandrl"
    pipx = environment(tmp_path / "pipx" / ".cache" / "x1", "pipx_metadata.json")
    assert looked_at(pipx).command(extra="hub") == "pipx run --spec 'sandrl[hub]' sandrl"


def test_trainers_get_environments_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = environment(tmp_path / "env")
    monkeypatch.setattr(sys, "prefix", str(path))
    monkeypatch.setattr(sys, "executable", str(path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    pip = f"{path}/bin/python -m pip install"
    assert install_command("hub") == f"{pip} 'sandrl[hub]'"
    monkeypatch.setattr(module, "_DRIVER", tmp_path / "none")
    cpu = "--extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0+cpu"
    assert install_command("grpo") == f"one trainer per environment: {pip} {cpu} 'sandrl[grpo]'"
    monkeypatch.setattr(module, "installed_version", lambda name: "1" if name == "openpipe-art" else None)
    new = "in a new virtual environment: python3 -m venv sandrl-grpo && sandrl-grpo/bin/pip install"
    assert install_command("grpo") == f"{new} {cpu} 'sandrl[grpo]'"
    assert install_command("art-local") == f"one trainer per environment: {pip} 'sandrl[art-local]'"
    monkeypatch.setattr(module, "_DRIVER", tmp_path)  # a machine with a GPU has the usual build
    assert install_command("grpo") == f"{new} 'sandrl[grpo]'"


@pytest.mark.parametrize(
    ("direct_url", "same", "elsewhere"),
    [
        (None, "'sandrl[hub]'", "uvx --from 'sandrl[hub]' sandrl"),
        ({"url": "{dir}", "dir_info": {}}, "'{path}[hub]'", "uvx --from '{path}[hub]' sandrl"),
        (
            {"url": "{dir}", "dir_info": {"editable": True}},
            "--editable '{path}[hub]'",
            "uvx --from '{path}[hub]' sandrl",
        ),
        ({"url": "{dir}/a.whl", "archive_info": {}}, "'sandrl[hub] @ {dir}/a.whl'", None),
        (
            {"url": "{dir}/gone.whl", "archive_info": {}},
            "'sandrl[hub]'",
            "in a clone of sandrl: uvx --from '.[hub]' sandrl",
        ),
        ({"url": "{dir}/gone", "dir_info": {}}, "'sandrl[hub]'", "in a clone of sandrl: uvx --from '.[hub]' sandrl"),
        (
            {"url": "https://host.example/a", "vcs_info": {"vcs": "git", "requested_revision": "v1"}},
            "'sandrl[hub] @ git+https://host.example/a@v1'",
            "uvx --from 'sandrl[hub] @ git+https://host.example/a@v1' sandrl",
        ),
    ],
)
def test_the_command_names_what_sandrl_came_from(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    direct_url: dict[str, object] | None,
    same: str,
    elsewhere: str | None,
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.whl").touch()

    def filled(text: str) -> str:
        return text.replace("{dir}", source.as_uri()).replace("{path}", str(source))

    came_from(monkeypatch, direct_url and {**direct_url, "url": filled(str(direct_url["url"]))})
    path = environment(tmp_path / "env")
    assert looked_at(path).command(extra="hub") == f"{path}/bin/python -m pip install {filled(same)}"
    if elsewhere is not None:
        uvx = environment(tmp_path / "uv" / "archive-v0" / "x1", config="uv = 0.9.1\n")
        assert looked_at(uvx).command(extra="hub") == filled(elsewhere)


def test_a_copy_that_was_never_installed_is_installed_from_its_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    clone = Path(module.__file__).resolve().parents[2]
    assert looked_at(environment(tmp_path / "env")).command(extra="hub").endswith(f" --editable '{clone}[hub]'")


def test_hints_and_locks_name_the_same_torch() -> None:
    lock = Path(__file__).parents[2] / "requirements" / "grpo.torch.txt"
    lines = [line for line in lock.read_text().splitlines() if line and not line.startswith("#")]
    assert lines == [f"--extra-index-url {module.TORCH_INDEX}", module.TORCH_FOR_CPU]


def test_a_clone_makes_them_by_its_makefile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = tmp_path / "clone"
    came_from(monkeypatch, {"url": clone.as_uri(), "dir_info": {"editable": True}})
    monkeypatch.setattr(sys, "prefix", str(environment(clone / ".venv")))
    (clone / "tools").mkdir()
    assert "venv-grpo" not in install_command("grpo")
    (clone / "tools" / "setup_venv.py").touch()
    assert install_command("grpo", directory=clone) == "make venv-grpo, then .venv-grpo/bin/sandrl"
    assert install_command("art-tinker", directory=tmp_path) == (
        f"make -C {clone} venv-art, then {clone}/.venv-art/bin/sandrl"
    )
    monkeypatch.setattr(sys, "prefix", str(environment(clone / ".venv-grpo")))
    assert "make venv-grpo" not in install_command("grpo")


@pytest.mark.parametrize(
    ("kind", "has_gpu", "expected"),
    [
        ("pip", False, "{python} -m pip install --force-reinstall --extra-index-url {index} torch==2.13.0+cpu"),
        ("pip", True, "{python} -m pip install --force-reinstall torch"),
        (
            "uv-receipt.toml",
            False,
            "uv pip install --python {python} --reinstall --torch-backend cpu torch==2.13.0+cpu",
        ),
        (
            "pipx_metadata.json",
            False,
            "pipx runpip env install --force-reinstall --extra-index-url {index} torch==2.13.0+cpu",
        ),
    ],
)
def test_torch_is_installed_again_in_the_build_that_the_machine_can_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, has_gpu: bool, expected: str
) -> None:
    path = environment(tmp_path / "env", *([kind] if kind != "pip" else []))
    monkeypatch.setattr(sys, "prefix", str(path))
    monkeypatch.setattr(sys, "executable", str(path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(module, "_DRIVER", tmp_path if has_gpu else tmp_path / "none")
    if kind == "uv-receipt.toml":
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        (tmp_path / "uv").touch(mode=0o755)
    assert again_command("torch") == expected.format(python=path / "bin" / "python", index=module.TORCH_INDEX)


def test_setup_never_installs_a_torch_without_its_libraries(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[list[str]] = []

    def attempt(command: list[str]) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        return subprocess.CompletedProcess(command, int("--no-deps" in command), b"")

    monkeypatch.setattr(setup_venv, "attempt", attempt)
    setup_venv.install_torch(["pip", "install"], setup_venv.TORCH["grpo"])
    assert commands == [
        ["pip", "install", "--no-deps", "--retries", "1", "-r", "requirements/grpo.torch.txt"],
        ["pip", "install", "torch==2.13.0"],
    ]
    assert "several gigabytes larger" in capsys.readouterr().err
