"""Makes the project's virtual environment from the lock, with nothing but the standard library.

One script instead of make rules, because the possible failures (an old python3, Debian's venv without ensurepip, a
moved checkout, an empty HOME, two makes at once) need branches. It runs on any Python 3, so that it can name the
version that is needed, and does nothing, in milliseconds, when the environment already matches the lock.
"""

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

MINIMUM = (3, 11)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Each lock with those it contains.
LOCKS = {
    "base": ["base"],
    "dev": ["base", "dev"],
    # Not in dev: what trackers need contradicts the pins of trainers.
    "trackers": ["base", "dev", "trackers"],
    "docs": ["base", "docs"],
    "release": ["base", "release"],
    "grpo": ["base", "dev", "grpo"],
    "unsloth": ["base", "dev", "unsloth"],
    # Not dev: ART wants an older openai.
    "art-tinker": ["base", "art-tinker"],
    # Not dev: verifiers wants an older openai.
    "integrations": ["base", "integrations"],
    "frameworks": ["base", "dev", "frameworks"],
}
# Locks without torch, and where its build for the processor alone comes from.
TORCH = {
    "grpo": "requirements/grpo.torch.txt",
    "unsloth": "requirements/grpo.torch.txt",
    "art-tinker": "requirements/grpo.torch.txt",
}


class SetupError(Exception):
    """What stops the setup, in a line, with the way out."""


def python_version(python: str) -> "tuple[int, int] | None":
    """Returns (major, minor) of an interpreter, or None when it does not run."""
    try:
        out = subprocess.run(
            [python, "-c", "import sys; print(*sys.version_info[:2])"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            check=True,
        ).stdout
        major, minor = out.split()
        return int(major), int(minor)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None


def suitable_python() -> str:
    """Returns this interpreter, or a newer one on PATH when this one is too old."""
    if sys.version_info[:2] >= MINIMUM:
        return sys.executable
    for minor in range(14, MINIMUM[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found and (python_version(found) or (0, 0)) >= MINIMUM:
            return found
    raise SetupError(
        f"sandrl needs Python 3.11 or newer; {sys.executable} is {sys.version_info[0]}.{sys.version_info[1]}."
        " Install one, then: make PYTHON=/path/to/python3.11"
    )


def clean_environment() -> "dict[str, str]":
    """Returns the environment for pip: no Python settings of the user, a cache only where it can be written."""
    unwanted = ("PYTHONPATH", "PYTHONHOME", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV")
    env = {key: value for key, value in os.environ.items() if key not in unwanted}
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    env["PIP_NO_INPUT"] = "1"
    home = env.get("HOME", "")
    cache = env.get("PIP_CACHE_DIR") or (os.path.join(env.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "pip"))
    if not home or not writable(cache):
        env["PIP_NO_CACHE_DIR"] = "1"
    # pip refuses to start without a home, even when it has nothing to do there.
    env["HOME"] = home or tempfile.gettempdir()
    return env


def writable(path: str) -> bool:
    """Tells whether a directory exists, or can be made, and can be written."""
    while not os.path.exists(path):
        parent = os.path.dirname(path)
        if parent == path:
            return False
        path = parent
    return os.access(path, os.W_OK | os.X_OK)


def attempt(command: "list[str]") -> "subprocess.CompletedProcess[bytes]":
    """Runs a step and keeps its output."""
    return subprocess.run(
        command,
        cwd=ROOT,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def run(command: "list[str]", failure: str) -> None:
    """Runs a step quietly; its output is shown only when it fails."""
    done = attempt(command)
    if done.returncode != 0:
        sys.stderr.write(done.stdout.decode("utf-8", "replace"))
        raise SetupError(failure)


def install_torch(pip: "list[str]", requirements: str) -> None:
    """Installs torch for the processor alone; without its index, the usual build with the libraries that it needs."""
    # Its index may be out of reach where another one has the same file; one retry tells.
    if attempt([*pip, "--no-deps", "--retries", "1", "-r", requirements]).returncode == 0:
        return
    with open(os.path.join(ROOT, requirements)) as stream:
        pinned = next(line.split("+")[0].strip() for line in stream if line.startswith("torch=="))
    sys.stderr.write(
        "setup: torch for the processor alone cannot be installed from the indexes in "
        + f"{requirements}; installing the build for GPUs, which is several gigabytes larger ...\n"
    )
    run([*pip, pinned], f"{pinned} could not be installed (above): is a Python package index reachable?")


def create(python: str, venv: str) -> None:
    """Creates the environment with a pip in it, by the first way this machine offers."""
    if os.path.isdir(venv) and os.listdir(venv):
        # Never empty a directory that is not a virtual environment: VENV may be mistyped.
        if not os.path.exists(os.path.join(venv, "pyvenv.cfg")):
            raise SetupError(f"{venv} exists and is not a virtual environment; choose another: make VENV=.venv")
        shutil.rmtree(venv)
    listing = (
        "import importlib.util as u; print(*[m for m in ('venv', 'ensurepip', 'pip', 'virtualenv') if u.find_spec(m)])"
    )
    modules = subprocess.check_output([python, "-c", listing], stdin=subprocess.DEVNULL).decode().split()
    if "venv" in modules and "ensurepip" in modules:
        run([python, "-m", "venv", venv], "python3 -m venv failed (above)")
    elif "venv" in modules and "pip" in modules:
        # Debian without python3-venv: an empty environment, filled by the pip outside it.
        run([python, "-m", "venv", "--without-pip", venv], "python3 -m venv --without-pip failed (above)")
        run(
            [python, "-m", "pip", "--python", os.path.join(venv, "bin", "python"), "install", "pip"],
            "pip cannot install into a new environment (above). Install the package python3-venv",
        )
    elif "virtualenv" in modules:
        run([python, "-m", "virtualenv", venv], "python3 -m virtualenv failed (above)")
    else:
        raise SetupError(f"{python} has neither ensurepip nor pip. Install the package python3-venv (or python3-pip)")


def fingerprint(venv: str, lock: str) -> str:
    """Returns what the environment was made from; a moved checkout or a changed lock changes it."""
    digest = hashlib.sha256(venv.encode())
    torch = [TORCH[lock]] if lock in TORCH else []
    for name in ["pyproject.toml", *torch, *(f"requirements/{each}.txt" for each in LOCKS[lock])]:
        with open(os.path.join(ROOT, name), "rb") as stream:
            digest.update(stream.read())
    return digest.hexdigest()


def is_ready(venv: str, lock: str) -> bool:
    """Tells whether the environment was made from the present lock and its interpreter still runs."""
    try:
        with open(os.path.join(venv, "sandrl-setup.json")) as stream:
            made_from = json.load(stream)
    except (OSError, ValueError):
        return False
    interpreter = os.path.join(venv, "bin", "python")
    return bool(made_from.get(lock) == fingerprint(venv, lock)) and os.access(interpreter, os.X_OK)


def set_up(venv: str, lock: str) -> None:
    """Makes the environment match the lock."""
    interpreter = os.path.join(venv, "bin", "python")
    if is_ready(venv, lock):
        return
    sys.stderr.write(f"Setting up {os.path.relpath(venv)} (first time only, about a minute) ...\n")
    python = suitable_python()
    if (python_version(interpreter) or (0, 0)) < MINIMUM or not os.path.exists(os.path.join(venv, "bin", "pip")):
        create(python, venv)
    pip = [interpreter, "-m", "pip", "install", "--quiet"]
    if lock in TORCH:
        # Compiling 16,000 files takes longer than a minute of processor time; imports compile those that are used.
        pip.append("--no-compile")
        install_torch(pip, TORCH[lock])
    run(
        [*pip, "--no-deps", "--require-hashes", "-r", f"requirements/{lock}.txt"],
        f"the packages of requirements/{lock}.txt could not be installed (above): is a Python package index reachable?",
    )
    run([*pip, "--no-deps", "--no-build-isolation", "-e", "."], "sandrl itself could not be installed (above)")
    if lock in TORCH:
        run(
            [interpreter, "-c", "import torch"],
            f"torch is installed in {venv} but cannot be imported (above); remove {venv} and try again",
        )
    made_from = {each: fingerprint(venv, each) for each in LOCKS[lock]}
    with open(os.path.join(venv, "sandrl-setup.json"), "w") as stream:
        json.dump(made_from, stream)


def main() -> int:
    """Parses the arguments and sets the environment up, one process at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lock", choices=sorted(LOCKS), default="base")
    parser.add_argument("venv")
    arguments = parser.parse_args()
    venv = os.path.abspath(arguments.venv)
    if is_ready(venv, arguments.lock):
        # Without waiting for another environment that is being set up.
        return 0
    with open(os.path.join(ROOT, "pyproject.toml")) as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        try:
            set_up(venv, arguments.lock)
        except SetupError as error:
            sys.stderr.write(f"setup: {error}\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
