"""Agents of others: a command in the machine of a task, which asks the model through the recording proxy.

A recipe is data: how an agent is installed into an image, and how it is started. It is installed once for each image,
with a network; the machine of an episode begins with what that has changed, and reaches the proxy in addition to what
its task may reach. Nothing but the token of the episode is in the machine.
"""

from __future__ import annotations

import json
import threading
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from sandrl.errors import InfrastructureError, UsageError
from sandrl.events import AgentInstalling, Emit, ignore
from sandrl.files import read_regular
from sandrl.sandboxes import Shape, State, network_of
from sandrl.settings import NetworkMode
from sandrl.suggestions import near
from sandrl.trials.machine import ROOT, Machine
from sandrl.trials.verification import last_line

INSTRUCTION = "INSTRUCTION"
"""The variable that has the instruction of the task's step."""

MODEL = "MODEL"
"""The variable that has the name of the model."""

_INSTALL_SECONDS = 1200.0
_OUTPUT_BYTES = 256 << 10
_LARGEST_RECIPE = 1 << 20
_SUFFIX = ".toml"
_MEMORY_BYTES, _STORAGE_BYTES = 2 << 30, 8 << 30

_Text = Annotated[str, StringConstraints(min_length=1)]


class Recipe(BaseModel):
    """How an agent is installed and started, by text for the shell of the image.

    Attributes:
        run: Starts the agent, which ends with its work. It reads `INSTRUCTION` and `MODEL`, and asks the model with
            `OPENAI_BASE_URL` and `OPENAI_API_KEY`, or `ANTHROPIC_BASE_URL` and `ANTHROPIC_API_KEY`.
        install: Installs it as root, with a network; empty if the image has it.
        variables: Further variables of the agent.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""
    run: _Text
    install: str = ""
    variables: dict[str, str] = {}

    @classmethod
    def find(cls, text: str) -> Self:
        """The recipe that a text means: the name of a known one, a file (`*.toml`), or a command.

        Raises:
            UsageError: If the file cannot be read, or is not a recipe; or the text is almost the name of a known one.
        """
        if text in RECIPES:
            return cls(name=text, **RECIPES[text])
        if text.endswith(_SUFFIX) and len(text.split()) == 1:
            return cls._read(Path(text))
        if not text.strip():
            raise UsageError("agent: is empty", fields=("agent",))
        if len(text.split()) == 1 and (meant := near(text, tuple(RECIPES))):
            raise UsageError(f"there is no agent {text!r}{meant}", hint=_HINT, fields=("agent",))
        return cls(name=text.split()[0].rpartition("/")[2], run=text)

    @classmethod
    def _read(cls, path: Path) -> Self:
        try:
            given = tomllib.loads(read_regular(path, _LARGEST_RECIPE).decode())
            return cls.model_validate({"name": path.stem, **given})
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}", hint=_HINT, fields=("agent",)) from error
        except (ValueError, ValidationError) as error:
            what = f"{path}: is not a recipe of an agent: {_first(error)}"
            raise UsageError(what, hint="its fields are run, install and variables", fields=("agent",)) from error


_HINT = "a known agent, a command, or a file with a recipe (*.toml)"
# Without what they keep for a next time: runs keep all that an installation has changed.
_NPM = (
    "command -v npm >/dev/null || {{ echo 'the image has no npm' >&2; exit 1; }};"
    " npm install --global --cache /tmp/npm {package} && rm -rf /tmp/npm"
)
_PIP = "python3 -m venv /opt/{name} && /opt/{name}/bin/pip install --disable-pip-version-check --no-cache-dir --quiet "
_MINI = _PIP.format(name="mini-swe-agent") + "mini-swe-agent==2.4.6"
_MINI_RUN = (
    '/opt/mini-swe-agent/bin/mini --yolo --exit-immediately --cost-limit 0{config} --model "openai/$MODEL"'
    ' --output /logs/agent/mini-swe-agent.json --task "$INSTRUCTION"'
)
_MINI_VARIABLES = {
    "MSWEA_CONFIGURED": "true",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "MSWEA_SILENT_STARTUP": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
_OPENCODE = {
    "autoupdate": False,
    "share": "disabled",
    "small_model": "proxy/policy",
    "provider": {
        "proxy": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:OPENAI_API_KEY}"},
            "models": {"policy": {"name": "policy"}},
        }
    },
}
RECIPES: Mapping[str, Mapping[str, object]] = {
    "mini-swe-agent": {"install": _MINI, "run": _MINI_RUN.format(config=""), "variables": _MINI_VARIABLES},
    "mini-swe-agent-text": {
        "install": _MINI,
        "run": _MINI_RUN.format(config=" --config mini_textbased.yaml --model-class litellm_textbased"),
        "variables": _MINI_VARIABLES,
    },
    "claude-code": {
        "install": _NPM.format(package="@anthropic-ai/claude-code@2.1.332"),
        "run": 'claude --print --permission-mode bypassPermissions --model "$MODEL" -- "$INSTRUCTION"',
        "variables": {"IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    },
    "codex": {
        "install": _NPM.format(package="@openai/codex@0.171.0"),
        "run": "codex exec --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check"
        " -c model_provider=proxy -c model_providers.proxy.name=proxy -c model_providers.proxy.env_key=OPENAI_API_KEY"
        ' -c model_providers.proxy.base_url="$OPENAI_BASE_URL" -c web_search=disabled -c features.multi_agent=false'
        ' --model "$MODEL" -- "$INSTRUCTION"',
    },
    "opencode": {
        "install": _NPM.format(package="opencode-ai@1.18.33"),
        # As an argument, an instruction with spaces would be put between quotes.
        "run": """printf %s "$INSTRUCTION" | opencode run --model proxy/policy""",
        "variables": {"OPENCODE_CONFIG_CONTENT": json.dumps(_OPENCODE)},
    },
    "aider": {
        "install": _PIP.format(name="aider") + "aider-chat==0.86.2",
        "run": "/opt/aider/bin/aider --yes-always --no-git --no-check-update --analytics-disable"
        ' --no-show-model-warnings --no-show-release-notes --model "openai/$MODEL" --message="$INSTRUCTION"',
        "variables": {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    },
}
"""Known agents, each with the version that was tried."""


def variables_of(port: int, token: str, model: str) -> dict[str, str]:
    """How an agent in a machine reaches the proxy, in the words of the usual clients."""
    address = f"http://127.0.0.1:{port}"
    return {
        "OPENAI_BASE_URL": f"{address}/v1",
        "OPENAI_API_BASE": f"{address}/v1",
        "OPENAI_API_KEY": token,
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": token,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        MODEL: model,
    }


@dataclass(eq=False)
class Installed:
    """The states of images in which an agent is installed; threads share it."""

    recipe: Recipe
    private_hosts: tuple[str, ...] = ()
    _states: dict[str, State | str] = field(default_factory=dict)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def state(self, image: str, make: Callable[[Shape], Machine], emit: Emit = ignore) -> State | None:
        """The state with the agent over an image; None if there is nothing to install.

        Raises:
            InfrastructureError: If it cannot be installed there.
            RuntimeLost: If the runtime failed.
        """
        if not self.recipe.install:
            return None
        with self._lock:
            lock = self._locks.setdefault(image, threading.Lock())
        with lock:
            known = self._states.get(image)
            if known is None:
                emit(AgentInstalling(self.recipe.name, image))
                known = self._states[image] = self._install(image, make)
        if isinstance(known, str):
            raise InfrastructureError(known)
        return known

    def _install(self, image: str, make: Callable[[Shape], Machine]) -> State | str:
        # A reason, if it is not possible: every episode would find the same.
        machine = make(
            Shape(
                image,
                memory_bytes=_MEMORY_BYTES,
                processors=1.0,
                storage_bytes=_STORAGE_BYTES,
                network=network_of(NetworkMode.PUBLIC, (), self.private_hosts),
                as_root=True,
            )
        )
        what = f"the agent {self.recipe.name} cannot be installed in the image {image}"
        try:
            machine.start()
            outcome = machine.run(
                self.recipe.install,
                user=ROOT,
                timeout_seconds=_INSTALL_SECONDS,
                variables={"DEBIAN_FRONTEND": "noninteractive", **self.recipe.variables},
                output_bytes=_OUTPUT_BYTES,
            )
            if outcome.timed_out:
                return f"{what} within {_INSTALL_SECONDS:g} s"
            if outcome.exit_code:
                said = last_line(outcome.stderr) or last_line(outcome.stdout)
                return f"{what}: exit code {outcome.exit_code}{f': {said}' if said else ''}"
            state = machine.save()
            return f"{what}: its state cannot be kept" if state is None else state
        finally:
            machine.close()


def _first(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"
