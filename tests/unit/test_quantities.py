"""Times and sizes with units, wherever a number of seconds or bytes is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.command_line import command_of

from sandrl.cli.app import main
from sandrl.config.commands import CONFIGS
from sandrl.config.fields import BYTES, SECONDS, options
from sandrl.config.layers import resolve
from sandrl.config.scoring import RewardConfig
from sandrl.config.serve import RequestOptions
from sandrl.config.toml import read_toml
from sandrl.errors import UsageError
from sandrl.quantities import bytes_of, parse_seconds, seconds_of, size_text
from sandrl.service.models import ExecuteRequest


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5),
        ("2m", 120),
        ("1h30m", 5400),
        ("500ms", 0.5),
        ("1d", 86_400),
        ("1.5 h", 5400),
        ("2 minutes", 120),
        ("10 sec", 10),
        ("1M30S", 90),
        ("10", 10),
        ("0.5", 0.5),
        (7, 7),
    ],
)
def test_a_time_may_have_units_and_a_plain_number_is_seconds(text: object, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1G", 1 << 30),
        ("512MiB", 512 << 20),
        ("2GB", 2 * 10**9),
        ("64k", 64 << 10),
        ("1.5GiB", 3 << 29),
        ("100 MB", 10**8),
        ("10b", 10),
        ("1048576", 1 << 20),
        (42, 42),
    ],
)
def test_a_size_may_have_a_unit_and_a_plain_number_is_bytes(text: object, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["5x", "1G", "s", "1m1h", "", "5 s s", "--", "٣s"])
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    assert parse_seconds(text) is None
    with pytest.raises(ValueError, match=r"is not a time: .* 500ms, 30s, 2m or 1h30m"):
        seconds_of(text)


@pytest.mark.parametrize("text", ["5s", "1X", "G", "1.5", "", "1G1M", "-1G"])
def test_what_is_no_size_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a size: .* 64k, 512MiB, 1G or 2GB"):
        bytes_of(text)


@pytest.mark.parametrize("size", [0, 1, 1024, 1 << 20, 64 << 20, 1 << 30, 10**9])
def test_a_size_is_written_as_it_is_read(size: int) -> None:
    assert bytes_of(size_text(size)) == size


def _fields(metavar: str) -> list[Any]:
    return [
        pytest.param(command, name, id=f"{command} {name}")
        for command, model in CONFIGS.items()
        for name, option in options(model)
        if option.metavar == metavar or name.endswith("_seconds" if metavar == SECONDS else "_bytes")
    ]


@pytest.mark.parametrize(("command", "name"), _fields(SECONDS))
def test_every_option_that_takes_a_time_takes_units(command: str, name: str) -> None:
    assert _read(command, name, "1m30s") == 90.0


@pytest.mark.parametrize(("command", "name"), _fields(BYTES))
def test_every_option_that_takes_a_size_takes_units(command: str, name: str) -> None:
    assert _read(command, name, "1G") == 1 << 30


def _read(command: str, name: str, text: str) -> object:
    """What the real parser of a command makes of a value."""
    found, _ = command_of(command.split())
    [parameter] = [each for each in found.params if each.name == name]
    assert parameter.metavar in (SECONDS, BYTES)
    words = [max(parameter.opts, key=len), text]
    return found.make_context(command, words, resilient_parsing=True).params[name]


def test_configuration_files_and_bodies_of_requests_take_units(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('timeout_seconds = "1m"\nsandbox_memory_bytes = "2GiB"\nmax_output_bytes = 100\n', encoding="utf-8")
    config = resolve(RewardConfig, read_toml(RewardConfig, path))
    assert (config.timeout_seconds, config.sandbox_memory_bytes, config.max_output_bytes) == (60.0, 2 << 30, 100)
    asked = resolve(RequestOptions, {"timeout_seconds": "500ms", "max_file_bytes": "1M"})
    assert (asked.timeout_seconds, asked.max_file_bytes) == (0.5, 1 << 20)
    body = ExecuteRequest.model_validate({"code": "", "timeout_seconds": "2m", "memory_bytes": "1G"})
    assert (body.timeout_seconds, body.memory_bytes) == (120.0, 1 << 30)
    with pytest.raises(UsageError, match=r"^timeout_seconds '5x' is not a time: .*30s"):
        resolve(RewardConfig, {"timeout_seconds": "5x"})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["reward", "--timeout", "5 parsecs"], "'--timeout': '5 parsecs' is not a time: write a number of seconds"),
        (
            ["reward", "--sandbox-memory", "1 elephant"],
            "'--sandbox-memory': '1 elephant' is not a size: write",
        ),
        (["reward", "--max-output-bytes", "0"], "--max-output-bytes: Input should be greater than or equal to 1"),
        (["sandboxes", "cleanup", "--older-than", "5"], "'5' is not an age with a unit"),
        (["sandboxes", "exec", "--timeout", "1ms", "x", "true"], "1ms is too short; it must be at least 0.1 seconds"),
    ],
)
def test_a_wrong_unit_is_told_with_examples(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert said in " ".join(capsys.readouterr().err.split())
