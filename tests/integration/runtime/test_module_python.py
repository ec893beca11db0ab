"""A Python that finds its libpython only through `LD_LIBRARY_PATH` scores, and its sandboxes see that file alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.programs import require_program

# Runs a program in a sandbox with the SDK, and again with `sandrl sandboxes exec`.
_EXEC = """
import os, subprocess, sys
from pathlib import Path
from sandrl.runtime import daemon
endpoint = daemon.ensure_running(Path(os.environ["SANDRL_STATE_DIR"]))
os.environ.update(CWSANDBOX_BASE_URL=endpoint.base_url, CWSANDBOX_API_KEY=endpoint.token)
from cwsandbox import AuthHeaders, Sandbox, SandboxDefaults
auth = AuthHeaders(headers={"Authorization": f"Bearer {endpoint.token}"}, strategy="api_key")
defaults = SandboxDefaults(base_url=endpoint.base_url, auth=auth, data_plane_mode="gateway")
image = f"python:{sys.version_info[0]}.{sys.version_info[1]}"
with Sandbox.run(defaults=defaults, container_image=image) as sandbox:
    words = ["python", "-c", *sys.argv[1:]]
    print(sandbox.exec(words).result().stdout, end="", flush=True)
    del os.environ["CWSANDBOX_BASE_URL"], os.environ["CWSANDBOX_API_KEY"]
    subprocess.run([sys.executable, "-m", "sandrl", "sandboxes", "exec", sandbox.sandbox_id, "--", *words], check=True)
"""
_WITHOUT = "import os, sys\ndel os.environ['LD_LIBRARY_PATH']\nfrom sandrl.cli.app import main\nsys.exit(main())\n"

NAME = f"python{sys.version_info[0]}.{sys.version_info[1]}"
_LEFT_OUT = shutil.ignore_patterns(
    "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "config-*", "__pycache__", "*-packages"
)
_MAIN = "int Py_BytesMain(int, char **);\nint main(int count, char **words) { return Py_BytesMain(count, words); }\n"

Sandrl = Callable[..., "subprocess.CompletedProcess[str]"]


def skip(reason: str) -> NoReturn:
    if os.environ.get("SANDRL_REQUIRE_PROGRAMS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@dataclass(frozen=True)
class ModulePython:
    """Such an interpreter, with the packages of the environment that runs the tests.

    `program` is that of a virtual environment on top of `prefix`.
    """

    program: Path
    prefix: Path
    library: Path

    def variables(self, library: Path | None = None) -> dict[str, str]:
        """The variable that it needs to start."""
        return {"LD_LIBRARY_PATH": str(library or self.library)}


def build(folder: Path, library: Path) -> ModulePython:
    """Copies the interpreter that runs the tests, and moves its libpython where only the variable leads."""
    original = _libpython()
    if original is None:
        skip(f"this Python has no shared libpython in {sysconfig.get_config_var('LIBDIR')}")
    compiler = shutil.which("cc")
    if compiler is None:
        skip("needs a C compiler, cc")
    prefix = folder / "prefix"
    (prefix / "bin").mkdir(parents=True)
    library.mkdir(parents=True, exist_ok=True)
    # Another name, of the same length: the system's own libpython must not be found in its place.
    name = re.sub(r"\d\.\d$", "9.9", original.name)
    content = original.read_bytes().replace(original.name.encode() + b"\0", name.encode() + b"\0")
    (library / name).write_bytes(content)
    source = folder / "main.c"
    source.write_text(_MAIN)
    program = prefix / "bin" / NAME
    subprocess.run([compiler, source, library / name, "-o", program, "-Wl,--allow-shlib-undefined"], check=True)
    for alias in ("python", "python3"):
        (prefix / "bin" / alias).symlink_to(NAME)
    standard = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(standard, prefix / "lib" / NAME, ignore=_LEFT_OUT, copy_function=_link, symlinks=False)
    (prefix / "lib" / NAME / "site-packages").mkdir()
    return ModulePython(_environment(folder, program), prefix, library)


def _libpython() -> Path | None:
    names = [sysconfig.get_config_var("INSTSONAME"), f"lib{NAME}.so.1.0"]
    folders = [sysconfig.get_config_var("LIBDIR"), f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}"]
    paths = [Path(folder, name) for name in names for folder in folders if name and folder]
    return next((path for path in paths if ".so" in path.name and path.is_file()), None)


def _link(source: str, target: str) -> str:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copyfile(source, target)
    return target


def _environment(folder: Path, program: Path) -> Path:
    packages = folder / "venv" / "lib" / NAME / "site-packages"
    packages.mkdir(parents=True)
    (folder / "venv" / "bin").mkdir()
    (folder / "venv" / "pyvenv.cfg").write_text(f"home = {program.parent}\ninclude-system-site-packages = false\n")
    lines = [f"import site; site.addsitedir({sysconfig.get_path(kind)!r})" for kind in ("purelib", "platlib")]
    (packages / "packages.pth").write_text("\n".join(lines) + "\n")
    found = folder / "venv" / "bin" / "python"
    found.symlink_to(program)
    return found


@pytest.fixture(scope="module", params=["in its prefix", "elsewhere"])
def python(request: pytest.FixtureRequest) -> Iterator[ModulePython]:
    # Not below pytest's own directory, which no other user may enter: with bubblewrap, sandboxes are other users.
    with tempfile.TemporaryDirectory(prefix="module-python-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        library = folder / ("prefix/lib" if request.param == "in its prefix" else "modules/python/lib")
        yield build(folder, library)


@pytest.fixture
def sandrl(python: ModulePython, tmp_path: Path) -> Iterator[Sandrl]:
    """Runs a command with that Python, in an empty directory with a state of its own."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "SANDRL_RUNTIME_ISOLATION")}

    def run(*words: str, script: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        start = ["-c", script] if script else ["-m", "sandrl"]
        environment = {"SANDRL_STATE_DIR": str(tmp_path / "state"), "NO_COLOR": "1", **kept}
        return subprocess.run(
            [python.program, *start, *words],
            cwd=tmp_path,
            env=environment | python.variables() | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )

    yield run
    run("runtime", "stop")


def test_it_needs_the_variable(python: ModulePython) -> None:
    done = subprocess.run([python.program, "-c", ""], env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert "error while loading shared libraries: libpython" in done.stderr


@pytest.mark.parametrize("runtime", ["local", "daemonless"])
@pytest.mark.parametrize("sandboxes", ["cells", "fresh"])
def test_completions_are_scored(sandrl: Sandrl, runtime: str, sandboxes: str) -> None:
    words = ["--fresh-sandboxes"] if sandboxes == "fresh" else []
    done = sandrl("reward", "--runtime", runtime, *words)
    assert done.returncode == 0, done.stderr
    assert "Total reward: 3.0/5" in done.stdout


def test_programs_of_a_sandbox_run_and_see_the_library_but_not_its_directory(
    sandrl: Sandrl, python: ModulePython
) -> None:
    (python.library / "private-notes").write_text("not for sandboxes")
    paths = [str(python.library / "private-notes"), "/run/sandrl/lib/private-notes"]
    code = (
        "import os, sys, ssl, ctypes\n"
        f"seen = [path for path in {paths} if os.path.exists(path)]\n"
        "print(seen, sorted(os.environ), os.environ['LD_LIBRARY_PATH'])\n"
        "places = [sys.argv[1], os.path.dirname(sys.argv[1])]\n"
        "print(*('read-only' if os.statvfs(each).f_flag & os.ST_RDONLY else 'writable' for each in places))\n"
    )
    name = next(python.library.glob("libpython*")).name
    is_inside = python.library == python.prefix / "lib"
    folder = "/usr/local/lib" if is_inside else "/run/sandrl/lib"
    done = sandrl(code, f"{folder}/{name}", script=_EXEC, SECRET_TOKEN="hidden")
    assert done.returncode == 0, done.stderr
    of_sdk, kind, of_command, other_kind = done.stdout.splitlines()
    assert kind == other_kind == "read-only read-only"
    for line in (of_sdk, of_command):
        assert line.startswith("[] [")
        assert line.endswith(f"] {folder}")
        assert "SECRET_TOKEN" not in line


def test_doctor_finds_that_completions_can_be_scored(sandrl: Sandrl) -> None:
    done = sandrl("doctor")
    assert done.returncode == 0, done.stderr
    assert "Completions can be scored here." in done.stdout
    assert "libpython" in done.stdout


def test_clients_share_a_daemon_if_their_interpreters_load_the_same_libraries(
    sandrl: Sandrl, python: ModulePython
) -> None:
    def daemon() -> str:
        return sandrl("runtime", "status", LD_LIBRARY_PATH=searched).stdout.partition(" at ")[0]

    searched = str(python.library)
    assert sandrl("reward").returncode == 0
    first = daemon()
    assert "running" in first
    searched = f"/nowhere/lib:{python.library}"
    assert daemon() == first
    other = python.library.parent / "other"
    other.mkdir(exist_ok=True)
    name = next(python.library.glob("libpython*")).name
    (other / name).write_bytes((python.library / name).read_bytes())
    searched = f"{other}:{python.library}"
    assert "not running" in daemon()
    done = sandrl("reward", LD_LIBRARY_PATH=searched)
    assert "Total reward: 3.0/5" in done.stdout, done.stderr
    second = daemon()
    assert "running" in second
    assert second != first
    stopped = sandrl("runtime", "stop", LD_LIBRARY_PATH=searched)
    assert (stopped.returncode, stopped.stdout.count(" is stopped.")) == (0, 2)
    searched = str(python.library)
    assert "not running" in daemon()


def test_a_relative_directory_leads_the_daemon_to_the_library_and_an_empty_one_is_not_given_to_it(
    sandrl: Sandrl, python: ModulePython, tmp_path: Path
) -> None:
    searched = f"{os.path.relpath(python.library, tmp_path)}:"
    done = sandrl("reward", LD_LIBRARY_PATH=searched)
    assert "Total reward: 3.0/5" in done.stdout, done.stderr
    pid = sandrl("runtime", "status").stdout.split()[2]
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    assert f"LD_LIBRARY_PATH={python.library}".encode() in variables


def test_a_directory_is_found_through_links_and_the_fork_server_does_not_search_the_directories_above(
    sandrl: Sandrl, python: ModulePython, tmp_path: Path
) -> None:
    (python.library.parent / "bin").mkdir(exist_ok=True)
    (tmp_path / "bin").symlink_to(python.library.parent / "bin")
    done = sandrl("reward", LD_LIBRARY_PATH=f"/tmp:{tmp_path}/bin/../lib")
    assert "Total reward: 3.0/5" in done.stdout, done.stderr
    pid = sandrl("runtime", "status").stdout.split()[2]
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    started = {Path(f"/proc/{each}/environ").read_bytes() for each in children}
    assert started
    for environment in started:
        assert f"LD_LIBRARY_PATH={python.library}".encode() in environment.split(b"\0")


@pytest.mark.parametrize("runtime", ["local", "daemonless"])
def test_without_the_variable_the_error_names_the_library_and_its_directory(
    sandrl: Sandrl, python: ModulePython, runtime: str
) -> None:
    name = next(python.library.glob("libpython*")).name
    done = sandrl("reward", "--runtime", runtime, script=_WITHOUT)
    assert done.returncode == 3
    assert f"cannot be started: {python.program} does not find {name}" in done.stderr
    assert f"hint: export LD_LIBRARY_PATH={python.library}, in the environment of this command" in done.stderr
    report = sandrl("doctor", script=_WITHOUT)
    assert report.returncode == 1
    assert f"does not find {name}" in report.stderr
    assert f"hint: export LD_LIBRARY_PATH={python.library}" in report.stderr


@pytest.mark.parametrize("runtime", ["local", "daemonless"])
def test_bubblewrap_shows_the_library(sandrl: Sandrl, runtime: str) -> None:
    require_program("bwrap")
    done = sandrl("reward", "--runtime", runtime, "--fresh-sandboxes", SANDRL_RUNTIME_ISOLATION="bubblewrap")
    assert done.returncode == 0, done.stderr
    assert "Total reward: 3.0/5" in done.stdout
    # gRPC's fork handlers would end some of the processes that become bubblewrap, and write to the log.
    assert "fork_posix" not in sandrl("runtime", "logs").stdout
