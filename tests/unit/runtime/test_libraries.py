"""Which directories of `LD_LIBRARY_PATH` processes of the runtime get."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandrl.runtime import libraries


def searched(monkeypatch: pytest.MonkeyPatch, value: str) -> list[str]:
    monkeypatch.setenv("LD_LIBRARY_PATH", value)
    return [entry for entry in libraries.search_path().split(":") if entry]


def test_relative_directories_become_absolute_and_empty_entries_are_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert searched(monkeypatch, ":lib;/a/lib::./lib:$ORIGIN/lib:") == [f"{tmp_path}/lib", "/a/lib", "$ORIGIN/lib"]
    assert searched(monkeypatch, "") == searched(monkeypatch, ":") == []


def test_the_parent_of_a_link_is_that_of_its_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "python/bin").mkdir(parents=True)
    (tmp_path / "bin").symlink_to(tmp_path / "python/bin")
    assert searched(monkeypatch, f"{tmp_path}/bin/../lib") == [f"{tmp_path}/python/lib"]


@pytest.mark.parametrize("name", ["a:/evil", "a;/evil", "$ORIGIN"])
def test_a_working_directory_does_not_name_further_directories(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    place = tmp_path / name
    place.mkdir(parents=True)
    monkeypatch.chdir(place)
    assert searched(monkeypatch, "lib:.:/good/lib:lib/$LIB") == ["/good/lib"]


def test_the_fork_server_gets_only_directories_with_needed_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tuple(
        (Path(path).name, path) for path in ("/b/lib/libb.so", "/a/lib/liba.so", "/a/lib/glibc-hwcaps/v3/libc.so")
    )
    monkeypatch.setattr(libraries, "own_libraries", lambda: libraries.Libraries(found, found))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/:/tmp:/a:/a/lib:/b/lib:/c/lib")
    assert libraries.start_environment() == {"LD_LIBRARY_PATH": "/a/lib/glibc-hwcaps/v3:/a/lib:/b/lib"}
    monkeypatch.setattr(libraries, "own_libraries", libraries.Libraries)
    assert libraries.start_environment() == {}
