from __future__ import annotations

import sys
from pathlib import Path

import pytest

import sandrl
from sandrl.errors import MissingExtraError
from sandrl.extras import broken_library, check, require
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


def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> None:
    """Puts modules where installed libraries are."""
    site = tmp_path / "lib" / "site-packages"
    site.mkdir(parents=True)
    for name, text in files.items():
        (site / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(site)


def raised_by(text: str, path: Path) -> Exception:
    """The exception that code of some file ends with."""
    try:
        exec(compile(text, str(path), "exec"), {})
    except Exception as error:  # noqa: BLE001 - this is what is asked for
        return error
    raise AssertionError("nothing was raised")


LOADS = "import ctypes\nctypes.CDLL('libno_such.so.12')\n"


@pytest.mark.parametrize(
    ("files", "code", "message"),
    [
        (
            {"broken_torch": LOADS},
            "import broken_torch",
            "the library 'broken_torch' cannot be imported: OSError: libno_such.so.12: cannot open shared object file: "
            "No such file or directory",
        ),
        (
            {"broken_torch": LOADS, "uses_torch": "import broken_torch"},
            "import uses_torch",
            "the library 'broken_torch' cannot be imported: OSError: libno_such.so.12: cannot open",
        ),
        (
            # As transformers does, whose parts are imported when they are used.
            {
                "broken_torch": LOADS,
                "lazy": "def part():\n    try:\n        import broken_torch\n    except Exception as error:\n"
                "        raise RuntimeError('Failed to import a part; look above') from error\n",
            },
            "import lazy\nlazy.part()",
            "the library 'broken_torch' cannot be imported: OSError: libno_such.so.12: cannot open",
        ),
        (
            {"half": "from json import no_such_name"},
            "import half",
            "the library 'half' cannot be imported: ImportError: cannot import name 'no_such_name' from 'json'",
        ),
        (
            {"half": "import no_such_dependency"},
            "import half",
            "the library 'half' cannot be imported: ModuleNotFoundError: No module named 'no_such_dependency'",
        ),
        (
            {"old": "raise RuntimeError('compiled with another version\\nof NumPy')"},
            "import old",
            "the library 'old' cannot be imported: RuntimeError: of NumPy",
        ),
        (
            {"asks": "def use():\n    raise ImportError('asks requires another library: pip install other')\n"},
            "import asks\nasks.use()",
            "the library 'asks' cannot be used: ImportError: asks requires another library: pip install other",
        ),
        (
            {"broken_torch": LOADS},
            "from sandrl.errors import UsageError\ntry:\n    import broken_torch\nexcept OSError as error:\n"
            "    raise UsageError('the file cannot be saved') from error",
            "the library 'broken_torch' cannot be imported: OSError: libno_such.so.12: cannot open",
        ),
        ({}, "import no_such_library", "the library 'no_such_library' cannot be imported: ModuleNotFoundError: "),
        (
            {"half": "raise ModuleNotFoundError(\"No module named '_lzma'\", name='_lzma')"},
            "import half",
            f"{sys.executable} has no module '_lzma' of Python's own library",
        ),
    ],
)
def test_a_library_that_cannot_be_imported_is_no_bug_of_sandrl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], code: str, message: str
) -> None:
    library(tmp_path, monkeypatch, **files)
    error = broken_library(raised_by(code, Path(sandrl.__file__).parent / "cli" / "any.py"))
    assert error is not None
    assert error.message.startswith(message), error.message
    assert error.hint is not None or "cannot be used" in message
    assert error.exit_code == 2
    for name in files:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "code",
    [
        "from sandrl.errors import no_such_name",
        "import sandrl.no_such_module",
        "open('/no/such/file.so.1')",
        "raise OSError('no model of this name')",
        "raise ValueError('wrong')",
        "try:\n    import no_such_library\nexcept ImportError:\n    {}['key']",
        "import fine\nfine.fails()",
    ],
)
def test_other_errors_remain_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    library(tmp_path, monkeypatch, fine="def fails():\n    raise ValueError('wrong')\n")
    assert broken_library(raised_by(code, Path(sandrl.__file__).parent / "cli" / "any.py")) is None
    sys.modules.pop("fine", None)
