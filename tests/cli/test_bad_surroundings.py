"""Commands in bad surroundings: impossible options, closed streams, a full disk, few open files, foreign files."""

from __future__ import annotations

import json
import os
import resource
import shlex
import stat
import subprocess
from pathlib import Path
from typing import get_args

import pytest
import typer

from sandrl.cli.app import application
from sandrl.sandboxes import find_connection
from sandrl.sandboxes.inventory import Inventory
from sandrl.settings import load_settings
from tests.cli.conftest import PROBLEM, RIGHT, SANDRL, Run
from tests.support.command_line import leaf_commands

_COMMAND = shlex.join(SANDRL)


def shell(script: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of bash, in which `$S` is the command, and `$REWARD` scores one completion, which takes no time."""
    (directory / "one.jsonl").write_text(RIGHT, encoding="utf-8")
    (directory / "its-problem.jsonl").write_text(PROBLEM, encoding="utf-8")
    script = script.replace("$REWARD", "$S reward one.jsonl --problems its-problem.jsonl")
    return subprocess.run(
        ["bash", "-c", script.replace("$S", _COMMAND)],
        capture_output=True,
        text=True,
        cwd=directory,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )


@pytest.fixture
def completions(tmp_path: Path) -> Path:
    path = tmp_path / "completions.jsonl"
    path.write_text(RIGHT, encoding="utf-8")
    return path


def _options(*kinds: type) -> list[tuple[tuple[str, ...], str]]:
    """Every option of every command that takes one of these types: a command line that lacks it, and its name."""
    found: list[tuple[tuple[str, ...], str]] = []
    for path, command in leaf_commands().items():
        words = (*path, *("tiny" for each in command.params if each.param_type_name == "argument" and each.required))
        for parameter in command.params:
            if parameter.param_type_name == "option":
                declared = parameter.type_descriptor.annotation
                if next(iter(get_args(declared)), declared) in kinds:
                    found.append((words, max(parameter.opts, key=len)))
    return found


FLOATS = _options(float)
TEXTS = _options(str, Path)


@pytest.fixture
def _built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Typer builds all commands anew for every call, which takes ten times as long as the call itself."""
    command = typer.main.get_command(application())
    monkeypatch.setattr(typer.main, "get_command", lambda _: command)


def test_the_lists_of_options_are_those_of_all_commands() -> None:
    assert (("reward",), "--format-reward") in FLOATS
    assert (("art", "rollout"), "--temperature") in FLOATS
    for option in ("--runs-dir", "--image", "--tag", "--packages", "--run-name", "--cache", "--out"):
        assert (("reward",), option) in TEXTS


@pytest.mark.usefixtures("_built_once")
@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1e300"])
def test_no_option_of_any_command_takes_a_number_that_no_result_can_hold(
    number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from sandrl.cli.app import main

    for words, option in FLOATS:
        assert main([*words, f"{option}={number}"]) == 2, (words, option)
        error = capsys.readouterr().err
        assert option in error, (words, option)


@pytest.mark.usefixtures("_built_once")
@pytest.mark.parametrize("text", ["", "  "])
def test_no_option_of_any_command_takes_an_empty_text(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    from sandrl.cli.app import main

    for words, option in TEXTS:
        # `--compare` takes two words.
        given = [option, text, text] if option == "--compare" else [option, text]
        assert main([*words, *given]) == 2, (words, option)
        assert f"{option} must not be empty" in capsys.readouterr().err


def test_a_path_that_is_the_current_directory_is_not_taken_for_an_empty_one(sandrl: Run) -> None:
    done = sandrl("reward", "--timeout", "1e-12", "--runs-dir", ".")
    assert "--timeout must be at least 0.01 seconds" in done.stderr
    assert done.returncode == 2


def test_words_of_a_program_in_a_sandbox_may_be_empty(sandrl: Run) -> None:
    done = sandrl("sandboxes", "exec", "no-such-sandbox", "--", "printf", "")
    assert "must not be empty" not in done.stderr


@pytest.mark.parametrize("file", ["completions", "problems"])
def test_a_key_that_is_given_twice_is_named_with_its_file_and_line(
    file: str, sandrl: Run, problems: Path, completions: Path
) -> None:
    path = {"completions": completions, "problems": problems}[file]
    path.write_text(path.read_text(encoding="utf-8").replace("{", '{"task_id": "dec", ', 1), encoding="utf-8")
    done = sandrl("reward", completions, "--problems", problems)
    assert done.returncode == 2
    assert f"{path}:1: " in done.stderr
    assert "the key 'task_id' occurs more than once in one object" in done.stderr


# Each stream for the command that opens most, and all at once for every one; the rest of the combinations is slow.
_CLOSED = (">&-", "2>&-", "<&-", "<&- >&- 2>&-")
_USING_STREAMS = ("$S --version", "$REWARD --json", "$S runs ls", "$S sandboxes ls")


@pytest.mark.parametrize(
    ("words", "closed"),
    [
        pytest.param(words, closed, marks=[] if "REWARD" in words or closed == _CLOSED[-1] else pytest.mark.slow)
        for words in _USING_STREAMS
        for closed in _CLOSED
    ],
)
def test_a_command_whose_streams_are_closed_ends_cleanly(words: str, closed: str, tmp_path: Path) -> None:
    done = shell(f"{words} {closed}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    # Nothing that was opened got the number of a closed stream, and so what was printed.
    for path in tmp_path.rglob("*.json*"):
        for line in path.read_text(encoding="utf-8").splitlines() if path.suffix == ".jsonl" else ():
            json.loads(line)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("$REWARD >/dev/full", 3),
        ("$REWARD 2>/dev/full", 3),
        ("$S runs ls --json >/dev/full 2>&1", 3),
        ("$REWARD 2>&1 | true; exit ${PIPESTATUS[0]}", 141),
        ("$REWARD 2> >(true) | cat; exit ${PIPESTATUS[0]}", 141),
    ],
)
def test_output_that_nobody_takes_ends_a_command_without_a_traceback(script: str, code: int, tmp_path: Path) -> None:
    done = shell(script, tmp_path)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    if script == "$REWARD >/dev/full":
        message = "error: the output could not be written: No space left on device\n  hint: free disk space"
        assert message in done.stderr


@pytest.mark.parametrize("limit", [12, 16, 24])
def test_too_few_open_files_are_named_as_the_reason(limit: int, tmp_path: Path) -> None:
    done = shell(f"ulimit -n {limit}; $REWARD", tmp_path)
    assert done.returncode == 2, done.stderr
    assert f"the limit of this process is {limit}, and " in done.stderr
    assert "ulimit -n" in done.stderr


def test_too_few_open_files_for_sandboxes_are_named_before_a_runtime_is_started(tmp_path: Path) -> None:
    done = shell("ulimit -n 64; $REWARD", tmp_path, SANDRL_STATE_DIR=str(tmp_path / "state"))
    assert done.returncode == 3, done.stderr
    assert "gives each program 512 open files, and this process is limited to 64" in done.stderr


def test_a_soft_limit_of_open_files_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 512:
        pytest.skip("the hard limit is too low")
    done = shell("ulimit -Sn 12; $REWARD --json", tmp_path)
    assert done.returncode == 0, done.stderr


def test_foreign_entries_of_a_cache_are_neither_waited_for_nor_read_whole(
    sandrl: Run, problems: Path, completions: Path, tmp_path: Path
) -> None:
    words = ("reward", completions, "--problems", problems, "--cache", tmp_path / "cache", "--json")
    assert sandrl(*words).returncode == 0
    [entry] = (tmp_path / "cache").glob("*/*.json")
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert stat.S_IMODE(entry.parent.stat().st_mode) == stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    for make in (os.mkfifo, lambda path: os.symlink("/dev/zero", path), os.mkdir):
        entry.unlink()
        make(entry)
        done = sandrl(*words)
        assert done.returncode in (0, 3), done.stderr
        assert json.loads(done.stdout)["results"][0]["reward"] == 1.0
        if entry.is_dir():
            entry.rmdir()
            entry.touch()


def test_foreign_files_in_a_run_directory_are_neither_waited_for_nor_read_whole(
    sandrl: Run, problems: Path, completions: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    words = ("reward", completions, "--problems", problems, "--runs-dir", runs, "--run-name", "one")
    assert sandrl(*words).returncode == 0
    for name in ("trajectories.jsonl", "config.json"):
        path = runs / "one" / name
        for make in (os.mkfifo, lambda path: os.symlink("/dev/zero", path)):
            path.unlink()
            make(path)
            done = sandrl("runs", "show", runs / "one")
            assert done.returncode == 2, done.stdout + done.stderr
            assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("/dev/zero", "is a device, not a file"),
        ("/usr", "the directory has no completions"),
        (b"\0" * (9 << 20), "is a binary file, or text in another encoding"),
        (b"\x7fELF\x02\x01", "broken JSON|invalid UTF-8"),
        (b"\xff\xfe\x00", "is text in UTF-16"),
        (b"[1]\n", "must be a string, or a list of strings"),
    ],
)
def test_a_file_that_is_none_of_completions_is_refused_with_its_name(
    content: str | bytes, message: str, sandrl: Run, problems: Path, tmp_path: Path
) -> None:
    path = tmp_path / "strange.jsonl"
    if isinstance(content, str):
        path.symlink_to(content)
    else:
        path.write_bytes(content)
    done = sandrl("reward", path, "--problems", problems)
    assert done.returncode == 2
    assert str(path) in done.stderr
    assert any(each in done.stderr for each in message.split("|")), done.stderr


def test_a_pipe_is_a_file_like_any_other_for_completions_and_results(problems: Path, tmp_path: Path) -> None:
    script = f"$S reward <(printf '%s' '{RIGHT.strip()}') --problems {problems} --out >(cat >results) 2>/dev/null; wait"
    done = shell(script + "; $S --version >/dev/null; cat results", tmp_path)
    assert '"reward":1.0' in done.stdout


def test_a_run_and_its_results_are_for_their_user_alone_until_the_user_says_otherwise(
    sandrl: Run, problems: Path, completions: Path, tmp_path: Path
) -> None:
    shared, fresh, run = tmp_path / "shared.jsonl", tmp_path / "fresh.jsonl", tmp_path / "runs" / "one"
    shared.touch(mode=0o644)
    shared.chmod(0o644)
    words = ("reward", completions, "--problems", problems, "--runs-dir", tmp_path / "runs")
    assert sandrl(*words, "--run-name", "one", "--out", fresh).returncode == 0
    assert sandrl(*words, "--out", shared).returncode == 0
    assert sandrl("runs", "report", run, "--no-open").returncode in (0, 2)
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in run.iterdir()}
    assert set(modes.values()) == {0o600}, modes
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o600
    assert stat.S_IMODE(shared.stat().st_mode) == 0o644


@pytest.mark.usefixtures("own_runtime")
@pytest.mark.parametrize("kibibytes", [8, pytest.param(12, marks=pytest.mark.slow)])
def test_a_full_disk_under_the_runs_is_the_reason_and_leaves_no_sandbox(
    kibibytes: int, problems: Path, completions: Path, tmp_path: Path
) -> None:
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs a mount namespace")
    completions.write_text(RIGHT * 30, encoding="utf-8")
    runs = tmp_path / "runs"
    runs.mkdir()
    # The runtime runs before there is no room.
    assert shell("$REWARD", tmp_path).returncode == 0
    mount = f"mount -t tmpfs -o size={kibibytes}k none {runs}"
    reward = f"$S reward {completions} --problems {problems} --no-cache -c 4 --runs-dir {runs}"
    done = shell(f"unshare -m bash -c {shlex.quote(f'{mount} && {reward}')}", tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "No space left on device" in done.stderr
    assert "could not be stopped" not in done.stderr
    assert "Traceback" not in done.stderr
    connection = find_connection(load_settings())
    assert connection is not None
    assert Inventory(connection).list() == []


def test_numbers_of_ones_own_reward_policy_that_json_cannot_hold_are_refused_by_name() -> None:
    from sandrl import Completion, UsageError, Verdict
    from sandrl.events.results import Status, Trust
    from sandrl.scoring.policies import reward_of

    verdict = Verdict(Status.FAILED, Trust.ISOLATED, 0, 1)
    for number in (float("nan"), float("inf"), 1e300):
        with pytest.raises(UsageError, match=r"called for 'double' \(failed\), returned .*: a reward must be"):
            reward_of(verdict, Completion("double", "double"), lambda *_, number=number: number)


def test_a_document_keeps_the_rest_where_a_number_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    from sandrl.cli.output import print_json

    print_json({"a": float("inf"), "b": [1.0, float("nan")]})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [1.0, None]}


@pytest.mark.parametrize(
    "words",
    [
        *("$REWARD", "$S sandboxes ls"),
        *(
            pytest.param(f"$S {words}", marks=pytest.mark.slow)
            for words in ("doctor", "runs ls", "runtime status", "--help")
        ),
    ],
)
def test_a_bare_environment_is_enough(words: str, tmp_path: Path) -> None:
    state = os.environ["SANDRL_STATE_DIR"]
    done = shell(f"env -i SANDRL_STATE_DIR={state} PATH=$PATH LC_ALL=POSIX COLUMNS=40 {words}", tmp_path)
    assert done.returncode == 0, done.stderr
