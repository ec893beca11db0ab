"""Writes the files that are made from the code: the command reference, the completion scripts, their tree of commands.

One program writes and checks (`--check`), so that what CI compares is what a developer gets.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from sandrl.cli.completion import scripts
from sandrl.cli.completion.tree import tree_text

ROOT = Path(__file__).resolve().parents[1]
TREE = Path("src/sandrl/cli/completion/tree.json")
REFERENCE = (sys.executable, "-m", "typer", "sandrl.cli.app", "utils", "docs", "--name", "sandrl")


def contents() -> dict[Path, str]:
    """Returns every generated file's path and text."""
    files = {ROOT / "completions" / name: scripts.SCRIPTS[shell] for shell, name in scripts.FILES.items()}
    return {ROOT / "docs" / "cli.md": _reference(), ROOT / TREE: tree_text(), **files}


def _reference() -> str:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "cli.md")
        command = [*REFERENCE, "--title", "Command line", "--output", str(page)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return page.read_text(encoding="utf-8")


def main() -> int:
    """Writes the files, or with `--check` compares them; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail if a file is not up to date")
    check = parser.parse_args().check
    files = contents()
    stale = [path for path, text in files.items() if not path.exists() or path.read_text("utf-8") != text]
    names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
    if check and stale:
        print(f"generated: not up to date: {names}; run make generate", file=sys.stderr)
        return 1
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], encoding="utf-8")
    if not check:
        print(f"generate: wrote {names}" if stale else "generate: everything is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
