"""Writes the files that are made from the code: references of commands and options, completion scripts and their tree.

One program writes and checks (`--check`), so that what CI compares is what a developer gets.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from sandrl.cli.completion import scripts
from sandrl.cli.completion.tree import tree_text
from sandrl.config import CONFIGS
from sandrl.config.fields import PANELS, Option, flag, options

ROOT = Path(__file__).resolve().parents[1]
# Run as a script, this file finds modules beside it only.
sys.path.insert(0, str(ROOT))

from tools import man_page  # noqa: E402

TREE = Path("src/sandrl/cli/completion/tree.json")
_OPTIONS_HEAD = """\
# Options

Each command has one configuration, and its options, the keys of a file, and what a run keeps are views of it.
`sandrl COMMAND --print-config` prints the resolved configuration as TOML, and `--config FILE.toml` reads such a file;
the command line beats the file, and the file beats the defaults. A run keeps its configuration in `config.json`, under
`options`; `sandrl runs regrade` begins with it. A list such as `tags` is an option that can be repeated, or, such as
`packages`, one word with commas. A field that is true or false has an option for each: `--require-isolated`,
`--no-require-isolated`.

This page is made from the code (`make generate`). [cli.md](cli.md) has defaults and bounds, command by command.
"""
REFERENCE = (sys.executable, "-m", "typer", "sandrl.cli.app", "utils", "docs", "--name", "sandrl")


def contents() -> dict[Path, str]:
    """Returns every generated file's path and text."""
    files = {ROOT / "completions" / name: scripts.SCRIPTS[shell] for shell, name in scripts.FILES.items()}
    pages = {
        ROOT / "docs" / "reference" / "cli.md": _reference(),
        ROOT / "docs" / "reference" / "options.md": _options(),
    }
    return {**pages, ROOT / TREE: tree_text(), ROOT / man_page.PAGE: man_page.text(), **files}


def _reference() -> str:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "cli.md")
        command = [*REFERENCE, "--title", "Command line", "--output", str(page)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return page.read_text(encoding="utf-8")


def _options() -> str:
    """The page of options: each meaning of a field once, with its flag and the commands that have it."""
    commands: dict[tuple[str, str, str], list[str]] = {}
    words: dict[tuple[str, str, str], Option] = {}
    for command, model in CONFIGS.items():
        for name, option in options(model):
            key = name, flag(name, option), option.help
            words.setdefault(key, option)
            commands.setdefault(key, []).append(command)
    first = {name: place for place, (name, *_) in reversed([*enumerate(words)])}
    ordered = sorted(words.items(), key=lambda item: first[item[0][0]])
    lines = [_OPTIONS_HEAD]
    for panel in PANELS:
        lines += [f"## {panel}", "", "| option | field | meaning | commands |", "|---|---|---|---|"]
        for (name, spelled, help_), option in ordered:
            if option.panel == panel:
                among = commands[name, spelled, help_]
                where = "all" if len(among) == len(CONFIGS) else ", ".join(among)
                value = f" {option.metavar}" if option.metavar and not option.is_argument else ""
                cells = [f"`{spelled}{value}`", f"`{name}`", help_, where]
                lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


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
