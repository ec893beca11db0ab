"""Checks which languages completions may be in: this machine has their tools where local sandboxes see them.

Each tool is run to read its version, because a broken installation can have the file but does not run. All tools are
run at once, because some of them start a virtual machine.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

from sandrl.answers.builds import SEARCHED
from sandrl.doctor.report import Check, State
from sandrl.problems.languages import LANGUAGES, PYTHON, Language

_TIMEOUT_SECONDS = 10.0
_VERSION = re.compile(r"\d+(\.\d+)+")


def languages_check() -> Check:
    """Each language with the version of its tools, and the Debian packages of those that are missing."""
    languages = [language for language in LANGUAGES if language.name != PYTHON]
    with ThreadPoolExecutor(len(languages)) as pool:
        versions = dict(zip(languages, pool.map(_version, languages), strict=True))
    there = [f"{language.name} {version}" for language, version in versions.items() if version]
    missing = [language for language, version in versions.items() if not version]
    packages = " ".join(dict.fromkeys(name for language in missing for name in language.forms[-1].packages))
    detail = ", ".join(["python", *there])
    if not missing:
        return Check("languages", State.OK, detail)
    detail += f"; no tools in /usr for: {', '.join(language.name for language in missing)}"
    return Check("languages", State.OK if there else State.ABSENT, detail, f"apt-get install {packages}")


def _version(language: Language) -> str:
    usual = language.forms[-1]
    commands = [command[0] for command in (usual.compile, usual.run, language.version) if command]
    if any(not name.startswith(".") and shutil.which(name, path=SEARCHED) is None for name in commands):
        return ""
    try:
        said = subprocess.run(
            language.version,
            env={"PATH": SEARCHED, "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    found = _VERSION.search((said.stdout + said.stderr).decode("utf-8", "replace"))
    return found.group() if found is not None else ""
