"""The user's prices of a sandbox-hour."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandrl.config.budget import Money
from sandrl.errors import InputError, UsageError
from sandrl.prices import Prices, set_price
from sandrl.settings import Settings, runtime_names


def settings(tmp_path: Path) -> Settings:
    return Settings.from_environment({"SANDRL_CONFIG_DIR": str(tmp_path / "config")})


def written(tmp_path: Path, text: str) -> Settings:
    (tmp_path / "config").mkdir(mode=0o700)
    (tmp_path / "config" / "prices.toml").write_text(text, encoding="utf-8")
    return settings(tmp_path)


def test_no_price_is_built_in(tmp_path: Path) -> None:
    assert not Prices.load(settings(tmp_path)).by_runtime
    assert not Prices.load(Settings(tmp_path, tmp_path)).by_runtime


def test_a_price_that_is_set_is_read_back_and_can_be_removed(tmp_path: Path) -> None:
    set_price(settings(tmp_path), "remote", "$0.12")
    set_price(settings(tmp_path), "local", "0.05 EUR")
    known = Prices.load(settings(tmp_path))
    assert known.by_runtime == {"remote": Money(0.12), "local": Money(0.05, "EUR")}
    assert known.path.stat().st_mode & 0o077 == 0
    set_price(settings(tmp_path), "remote", None)
    assert Prices.load(settings(tmp_path)).of("remote") is None


def test_runtimes_and_prices_that_there_are_none_of_are_refused(tmp_path: Path) -> None:
    for runtime in ("auto", "cloud"):
        with pytest.raises(UsageError, match="no runtime"):
            set_price(settings(tmp_path), runtime, "$1")
    for price in ("1", "-$1", "cheap"):
        with pytest.raises(UsageError, match="not a price"):
            set_price(settings(tmp_path), "local", price)
    assert not (tmp_path / "config").exists()


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("[sandbox_hour]\nlocal = 3\n", 2, "3 is not a price"),
        ('[sandbox_hour]\nlocal = "$1"\nremot = "$2"\n', 3, "no such runtime"),
        ("[sandbox_hour]\nlocal = \n", 2, "is not TOML"),
        ('\n[prices]\nlocal = "$1"\n', 2, "only the table"),
        ('local = "$1"\n', 1, "only the table"),
    ],
)
def test_a_broken_file_is_an_error_that_names_file_and_line(tmp_path: Path, text: str, line: int, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        Prices.load(written(tmp_path, text))
    assert caught.value.line == line
    assert caught.value.path == str(tmp_path / "config" / "prices.toml")


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config" / "prices.toml").mkdir(parents=True)
    with pytest.raises(InputError, match="cannot be read"):
        Prices.load(settings(tmp_path))


def test_prices_that_are_set_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    own = settings(tmp_path)
    with ThreadPoolExecutor() as pool:
        for _ in range(5):
            list(pool.map(lambda runtime: set_price(own, runtime, "$1"), runtime_names()))
            assert set(Prices.load(own).by_runtime) == set(runtime_names())
            list(pool.map(lambda runtime: set_price(own, runtime, None), runtime_names()))
            assert not Prices.load(own).by_runtime
