"""The lines of `sandrl --version`, with the versions that a bug report needs.

The versions are read from the packages' metadata, so that no package is imported.
"""

from __future__ import annotations

import platform

from sandrl import __version__
from sandrl.installation import installation, installed_version

_DEPENDENCIES = ("cwsandbox", "grpcio", "httpx", "protobuf", "pydantic", "rich", "starlette", "typer", "uvicorn")
# The main packages of each extra.
_OPTIONAL = (
    *("datasets", "fastapi", "openai", "openpipe-art", "peft", "ray", "tinker", "torch", "transformers"),
    *("trl", "unsloth", "vllm", "wandb"),
)


def version_lines() -> list[str]:
    """Returns the version of sandrl, and then the interpreter, the platform and the version of each package."""
    here = installation()
    lines = [
        f"sandrl {__version__}",
        f"Python {platform.python_version()}",
        f"platform {platform.system()} {platform.release()} {platform.machine()}",
        f"installed with {here.kind}{' (editable)' if here.clone is not None else ''}",
    ]
    lines += [f"{name} {installed_version(name) or '(not installed)'}" for name in _DEPENDENCIES]
    lines += [f"{name} {version}" for name in _OPTIONAL if (version := installed_version(name)) is not None]
    return lines
