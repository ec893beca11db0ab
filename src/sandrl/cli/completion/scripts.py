"""The completion scripts for bash, zsh and fish, and their installation.

Typer's own scripts do not work well in real shells: its zsh function offers nothing on the first TAB, its bash function
offers nothing after `--option=`, and its installer writes settings for all other programs into `.zshrc`. These scripts
append one line to a shell's start file, or no line if the shell searches a directory.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandrl.errors import UsageError

_HEAD = "# Completion of sandrl's command line for {shell}. Generated: `make generate`.\n"

BASH = (
    _HEAD.format(shell="bash")
    + r"""
_sandrl() {
    local -a answer
    mapfile -t answer < <(
        _SANDRL_COMPLETE=bash _SANDRL_COMPLETE_BREAKS=$COMP_WORDBREAKS \
            "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null
    )
    COMPREPLY=("${answer[@]:1}")
    # What is alive comes first.
    compopt -o nosort 2>/dev/null
    if ((${#COMPREPLY[@]} == 0)); then
        case ${answer[0]} in
            files) compopt -o default ;;
            directories) compopt -o dirnames ;;
        esac
    fi
}

complete -F _sandrl sandrl
"""
)

ZSH = (
    "#compdef sandrl\n"
    + _HEAD.format(shell="zsh")
    + r"""
_sandrl() {
    local -a answer found before
    local line
    ((CURRENT > 2)) && before=("${(@Q)words[2,CURRENT-1]}")
    answer=("${(@f)$(_SANDRL_COMPLETE=zsh ${(Q)~words[1]} "${before[@]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for line in "${answer[@]:1}"; do
        if [[ $line == *$'\t'* ]]; then
            found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        else
            found+=("${line//:/\\:}")
        fi
    done
    ((${#found})) && _describe -V sandrl found
    case ${answer[1]} in
        files) _files ;;
        directories) _files -/ ;;
    esac
}

if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then
    _sandrl "$@"
else
    (($+functions[compdef])) || { autoload -Uz compinit && compinit -i }
    compdef _sandrl sandrl
fi
"""
)

FISH = (
    _HEAD.format(shell="fish")
    + r"""
function __sandrl_complete
    set -l words (commandline -opc)
    set -l command $words[1]
    set -e words[1]
    set -l current (commandline -ct)
    set -l answer (_SANDRL_COMPLETE=fish $command $words "$current" 2>/dev/null)
    switch "$answer[1]"
        case files
            __fish_complete_path "$current"
        case directories
            __fish_complete_directories "$current"
    end
    set -e answer[1]
    printf '%s\n' $answer
end

complete -c sandrl -f -k -a '(__sandrl_complete)'
"""
)

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
FILES = {"bash": "sandrl.bash", "zsh": "_sandrl", "fish": "sandrl.fish"}
"""The file names of the scripts, in `completions/` and where they are installed."""


@dataclass(frozen=True)
class CompletionFiles:
    """Where completion was installed.

    Attributes:
        start_file: The shell's start file that reads it; None where the shell finds it by itself.
    """

    shell: str
    script: Path
    start_file: Path | None


def current_shell(environment: Mapping[str, str] | None = None) -> str:
    """Names the shell that runs this command: the nearest one among its ancestors, else the user's usual one.

    Raises:
        UsageError: If it is none that has completion here.
    """
    environment = os.environ if environment is None else environment
    for name in (*_ancestors(), os.path.basename(environment.get("SHELL", ""))):
        if name in SCRIPTS:
            return name
    raise UsageError("the current shell is not bash, zsh or fish", hint="run the command in one of these shells")


def install(shell: str, environment: Mapping[str, str] | None = None) -> CompletionFiles:
    """Writes a shell's script into the user's home, and makes the shell read it; doing it again renews it.

    Raises:
        UsageError: If there is no home directory, or it cannot be written to.
    """
    environment = os.environ if environment is None else environment
    home = Path(environment.get("HOME", ""))
    by_hand = f"sandrl --show-completion prints the script; load it in a start file of {shell}"
    if not (home.is_absolute() and home.is_dir()):
        raise UsageError("there is no home directory to install completion in", hint=by_hand)
    if shell == "fish":
        # Fish looks into this directory by itself.
        script = _base(environment, "XDG_CONFIG_HOME", home / ".config") / "fish" / "completions" / FILES[shell]
        start_file = None
    else:
        script = _base(environment, "XDG_DATA_HOME", home / ".local/share") / "sandrl" / "completions" / FILES[shell]
        folder = Path(environment.get("ZDOTDIR") or home) if shell == "zsh" else home
        start_file = folder / f".{shell}rc"
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(SCRIPTS[shell], encoding="utf-8")
        if start_file is not None:
            name = shlex.quote(str(script))
            _add_line(start_file, f"[[ -r {name} ]] && source {name}  # completion of sandrl")
    except OSError as error:
        raise UsageError(f"completion cannot be installed: {error.filename}: {error.strerror}", hint=by_hand) from error
    return CompletionFiles(shell, script, start_file)


def _base(environment: Mapping[str, str], variable: str, usual: Path) -> Path:
    chosen = Path(environment.get(variable, ""))
    return chosen if chosen.is_absolute() else usual


def _add_line(path: Path, line: str) -> None:
    # Appended, never rewritten: whatever happens in the middle, the user's own settings are as they were.
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    if line not in text.splitlines():
        with path.open("a", encoding="utf-8") as file:
            file.write(("" if not text or text.endswith("\n") else "\n") + line + "\n")


def _ancestors() -> list[str]:
    names: list[str] = []
    pid = os.getppid()
    try:
        while pid > 1:
            before, _, after = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
            names.append(before.partition("(")[2])
            pid = int(after.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return names
