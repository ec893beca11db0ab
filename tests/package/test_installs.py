"""Ordinary users install the packages with pip, uv and pipx, run the demo, and follow the hints."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator

import pytest

from tests.package.conftest import Built
from tests.support.packages import PYTHONS, User, ordinary_user, python

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def user(built: Built) -> Iterator[User]:
    with ordinary_user(built.wheel.parent) as user:
        yield user


def needs(program: str, user: User) -> None:
    if shutil.which(program, path=user.programs) is None:
        pytest.skip(f"no {program}")


def scores_the_demo(user: User, *sandrl: str) -> None:
    """Runs what a new user runs first."""
    try:
        assert "Total reward: 3.0/5" in user.run(*sandrl, "reward").splitlines()
    finally:
        user.run(*sandrl, "runtime", "stop")


def install(user: User, tool: str, version: str, package: str) -> str:
    """Installs a package as a new user does; returns the path of `sandrl`."""
    interpreter, source = python(version), user.shared / package
    if tool == "pip":
        user.run(interpreter, "-m", "venv", "env")
        user.run(user.home / "env" / "bin" / "pip", "install", "--quiet", source)
        return f"{user.home}/env/bin/sandrl"
    needs(tool, user)
    if tool == "uv":
        user.run("uv", "tool", "install", "--quiet", "--python", interpreter, source)
    else:
        user.run("pipx", "install", "--python", interpreter, source)
    return "sandrl"


@pytest.mark.parametrize("package", ["wheel", "sdist"])
@pytest.mark.parametrize("version", PYTHONS)
@pytest.mark.parametrize("tool", ["pip", "uv", "pipx"])
def test_an_ordinary_user_installs_it_and_scores_the_demo(
    user: User, built: Built, tool: str, version: str, package: str
) -> None:
    sandrl = install(user, tool, version, built.package(package).name)
    (
        first,
        second,
        *_,
    ) = user.run(sandrl, "--version").splitlines()
    assert first == f"sandrl {built.version}"
    assert second.startswith(f"Python {version}.")
    scores_the_demo(user, sandrl)
    if tool == "pip":
        assert user.run(user.home / "env" / "bin" / "python", "-m", "sandrl", "--version").splitlines()[0] == first
        assert (user.home / "env" / "share" / "man" / "man1" / "sandrl.1").is_file()


@pytest.mark.parametrize("origin", ["wheel", "clone"])
def test_the_job_of_a_new_project_installs_the_sandrl_that_wrote_it(user: User, built: Built, origin: str) -> None:
    if origin == "wheel":
        sandrl, source = install(user, "pip", "3.12", built.wheel.name), user.shared / built.wheel.name
    else:
        source = user.shared / "a clone"
        shutil.copytree(built.repository, source)
        source.chmod(0o755)
        user.run(python("3.12"), "-m", "venv", "env")
        user.run(user.home / "env" / "bin" / "pip", "install", "--quiet", "--editable", source)
        sandrl = f"{user.home}/env/bin/sandrl"
    user.run(sandrl, "init", "a project")
    user.run(python("3.11"), "-m", "venv", "job")
    job = 'export PATH="$PWD/job/bin:$PATH" && sh "a project/ci/install.sh" && sandrl --version'
    assert "\nPython 3.11." in user.run("sh", "-c", job)
    # SANDRL_SOURCE has priority, and a source that is not there is named.
    user.run(python("3.11"), "-m", "venv", "--clear", "job")
    shown = user.run("sh", "-c", f"export SANDRL_SOURCE=./none.whl && {job}", is_expected_to_fail=True)
    assert "ci/install.sh: pip cannot install sandrl from: ./none.whl\n" in shown


def hint(user: User, *sandrl: str) -> str:
    """Returns the command that an error without the extra `serve` names."""
    shown = user.run(*sandrl, "serve", is_expected_to_fail=True)
    found = re.fullmatch(r"sandrl: error: the package 'fastapi' is not installed\n  hint: (.*)\n", shown)
    assert found is not None, shown
    # A virtual environment has several names for its interpreter.
    return re.sub(rf"({re.escape(str(user.home))}\S*( \S+)?/bin)/python3(\.\d+)?\b", r"\1/python", found[1])


def has_serve(user: User, *sandrl: str) -> bool:
    return re.search(r"^fastapi \d", user.run(*sandrl, "--version"), re.MULTILINE) is not None


def has_six(user: User, interpreter: str) -> bool:
    return user.run(interpreter, "-c", "from importlib import util; print(util.find_spec('six'))").strip() != "None"


def test_the_hint_for_a_virtual_environment_works_whichever_pip_is_on_the_path(user: User, built: Built) -> None:
    sandrl = install(user, "pip", "3.12", built.wheel.name)
    command = hint(user, sandrl)
    source = (user.shared / built.wheel.name).as_uri()
    assert command == f"{user.home}/env/bin/python -m pip install 'sandrl[serve] @ {source}'"
    activated = user.run("sh", "-c", f". env/bin/activate; {sandrl} serve 2>&1 || true")
    assert f"  hint: pip install 'sandrl[serve] @ {source}'\n" in activated
    user.run("sh", "-c", command)
    assert has_serve(user, sandrl)


def test_the_hint_for_an_environment_of_uv_works_without_pip(user: User, built: Built) -> None:
    needs("uv", user)
    user.run("uv", "venv", "--quiet", "--python", python("3.13"), "my env")
    interpreter = user.home / "my env" / "bin" / "python"
    user.run("uv", "pip", "install", "--quiet", "--python", interpreter, user.shared / built.wheel.name)
    sandrl = str(user.home / "my env" / "bin" / "sandrl")
    command = hint(user, sandrl)
    source = (user.shared / built.wheel.name).as_uri()
    assert command == f"uv pip install --python '{interpreter}' 'sandrl[serve] @ {source}'"
    user.run("sh", "-c", command)
    assert has_serve(user, sandrl)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["venv/bin/pip", "install", "."], "venv/bin/python -m pip install '{clone}[serve]'"),
        (["venv/bin/pip", "install", "-e", "."], "venv/bin/python -m pip install --editable '{clone}[serve]'"),
        (["uv", "tool", "install", "."], "uv tool install '{clone}[serve]'"),
        (["uv", "tool", "install", "-e", "."], "uv tool install --editable '{clone}[serve]'"),
    ],
)
def test_the_hint_for_an_installation_from_a_clone_names_the_clone(
    user: User, built: Built, words: list[str], named: str
) -> None:
    needs("uv", user)
    clone = user.home / "sandrl"
    user.clone(built.repository)
    user.run(python("3.13"), "-m", "venv", "sandrl/venv")
    user.run("sh", "-c", f"cd sandrl && UV_PYTHON={python('3.13')} {' '.join(words)}")
    sandrl = "sandrl" if words[0] == "uv" else f"{clone}/venv/bin/sandrl"
    command = hint(user, sandrl)
    assert command == (f"{clone}/" if words[0] != "uv" else "") + named.format(clone=clone)
    user.run("sh", "-c", command)
    assert has_serve(user, sandrl)


def test_the_hint_for_a_tool_of_uv_keeps_its_extras_and_packages(user: User, built: Built) -> None:
    needs("uv", user)
    package = user.shared / built.wheel.name
    user.run("uv", "tool", "install", "--quiet", "--python", python("3.12"), "--with", "six", f"{package}[endpoint]")
    command = hint(user, "sandrl")
    assert command == f"uv tool install 'sandrl[endpoint,serve] @ {package.as_uri()}' --with six"
    user.run("sh", "-c", command)
    assert has_serve(user, "sandrl")
    assert re.search(r"^openai \d", user.run("sandrl", "--version"), re.MULTILINE)
    assert has_six(user, ".local/share/uv/tools/sandrl/bin/python")
    # Without the file that it came from, the version that is installed is kept.
    user.run("uv", "tool", "install", "--quiet", "--reinstall", package)
    package.unlink()
    command = hint(user, "sandrl")
    assert command == "uv tool install 'sandrl[serve]'"
    user.run("sh", "-c", command)
    assert has_serve(user, "sandrl")


def test_the_hint_for_a_tool_of_pipx_keeps_its_extras_and_packages(user: User, built: Built) -> None:
    needs("pipx", user)
    package = user.shared / built.wheel.name
    user.run("pipx", "install", "--python", python("3.12"), f"{package}[endpoint]")
    user.run("pipx", "inject", "sandrl", "six")
    command = hint(user, "sandrl")
    assert command == f"pipx install --force 'sandrl[endpoint,serve] @ {package.as_uri()}'"
    user.run("sh", "-c", command)
    assert has_serve(user, "sandrl")
    assert re.search(r"^openai \d", user.run("sandrl", "--version"), re.MULTILINE)
    assert has_six(user, ".local/pipx/venvs/sandrl/bin/python")
    package.unlink()
    user.run(".local/pipx/venvs/sandrl/bin/python", "-m", "pip", "uninstall", "--yes", "--quiet", "fastapi")
    command = hint(user, "sandrl")
    assert command == "pipx runpip sandrl install 'sandrl[serve]'"
    user.run("sh", "-c", command)
    assert has_serve(user, "sandrl")


def test_the_hints_for_uvx_and_pipx_run_run_it_again_with_the_extra(user: User, built: Built) -> None:
    package, interpreter = user.shared / built.wheel.name, str(python("3.12"))
    for program, run in (
        ("uv", ["uvx", "--quiet", "--python", interpreter, "--from", str(package), "sandrl"]),
        ("pipx", ["pipx", "run", "--python", interpreter, "--spec", str(package), "sandrl"]),
    ):
        needs(program, user)
        if program == "uv":
            (user.shared / "bin" / "uvx").write_text(f'#!/bin/sh\nexec {user.shared}/bin/uv tool run "$@"\n')
            (user.shared / "bin" / "uvx").chmod(0o755)
        user.run(*run, "--version")
        command = shlex.split(hint(user, *run))
        option = "--from" if program == "uv" else "--spec"
        start = ["uvx"] if program == "uv" else ["pipx", "run"]
        assert command == [*start, option, f"sandrl[serve] @ {package.as_uri()}", "sandrl"]
        assert has_serve(user, *start, "--python", interpreter, *command[len(start) :])


def test_the_hint_for_debian_s_own_python_works(user: User, built: Built) -> None:
    needs("pip3", user)
    user.run(
        "/usr/bin/python3", "-m", "pip", "install", "--quiet", "--break-system-packages", user.shared / built.wheel.name
    )
    command = hint(user, f"{user.home}/.local/bin/sandrl")
    if "--break-system-packages" not in command:
        pytest.skip("the system's Python may be changed by pip")
    user.run("sh", "-c", command)
    assert has_serve(user, f"{user.home}/.local/bin/sandrl")
    scores_the_demo(user, "sandrl")
