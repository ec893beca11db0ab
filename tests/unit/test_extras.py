from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sandrl.errors import MissingExtraError
from sandrl.extras import check, require
from sandrl.installation import install_command


def test_an_installed_module_is_returned() -> None:
    assert require("json.decoder", extra="grpo") is sys.modules["json.decoder"]


def test_a_missing_package_names_the_command_that_installs_it() -> None:
    with pytest.raises(MissingExtraError) as caught:
        require("no_such_package.part", extra="art-tinker")
    assert str(caught.value) == "the package 'no_such_package' is not installed"
    assert caught.value.hint == install_command("art-tinker")


def test_a_package_whose_own_dependency_is_missing_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_installed.py").write_text("import its_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtraError, match="'half_installed' cannot be imported: 'its_dependency' is not"):
        require("half_installed", extra="grpo")


def test_checking_loads_nothing_and_names_the_first_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "never_loaded.py").write_text("raise AssertionError('it was imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    check(["json", "never_loaded"], extra="grpo")
    assert "never_loaded" not in sys.modules
    with pytest.raises(MissingExtraError, match="'no_such_package' is not installed") as caught:
        check(["json", "no_such_package", "no_other_package"], extra="grpo")
    assert caught.value.hint == install_command("grpo")
