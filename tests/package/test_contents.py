"""What is in the packages, that they do not depend on the build's surroundings, and what stops a release."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from datetime import date
from pathlib import Path

import pytest
from tools import release
from tools.long_description import long_description
from tools.man_page import PAGE

from tests.package.conftest import Built
from tests.support.packages import ROOT

README = """\
# Title

[Pages](docs/index.md#start), [an address](https://example.org), [a section](#title).

![A picture](docs/a.svg)

<picture>
  <source srcset="docs/dark.png">
  <img src="docs/light.png">
</picture>

The end.
"""


def test_the_packages_have_the_files_they_should_have_and_no_other(built: Built) -> None:
    release.check_sdist(built.sdist, built.tracked)
    release.check_wheel(built.wheel, built.tracked, built.version)


def test_a_file_too_few_or_too_many_is_named(built: Built) -> None:
    with pytest.raises(release.ReleaseError, match=r"whl lacks sandrl/new\.js$"):
        release.check_wheel(built.wheel, [*built.tracked, "src/sandrl/new.js"], built.version)
    fewer = [name for name in built.tracked if not name.endswith("py.typed")]
    with pytest.raises(release.ReleaseError, match=r"should not have, sandrl/py\.typed$"):
        release.check_wheel(built.wheel, fewer, built.version)
    with pytest.raises(release.ReleaseError, match=r"gz has, but should not have, src/sandrl/py\.typed$"):
        release.check_sdist(built.sdist, fewer)


def test_the_wheel_has_data_licences_completions_and_a_man_page(built: Built, tmp_path: Path) -> None:
    with zipfile.ZipFile(built.wheel) as files:
        files.extractall(tmp_path)
    package, data = tmp_path / "sandrl", tmp_path / f"sandrl-{built.version}.data" / "data" / "share"
    assert (package / "py.typed").is_file()
    assert (package / "problems" / "data" / "bundled_problems.jsonl").stat().st_size > 1000
    assert (package / "runs" / "report" / "assets" / "vendor" / "chart.umd.min.js").is_file()
    licences = {path.name for path in tmp_path.glob("*.dist-info/licenses/**/*") if path.is_file()}
    vendored = {f"{name}.LICENSE.md" for name in ("chart", "diff", "htm", "preact")}
    assert licences == {"LICENSE", *vendored}
    for source, target in (
        ("completions/sandrl.bash", "bash-completion/completions/sandrl"),
        ("completions/_sandrl", "zsh/site-functions/_sandrl"),
        ("completions/sandrl.fish", "fish/vendor_completions.d/sandrl.fish"),
        ("man/sandrl.1", "man/man1/sandrl.1"),
    ):
        assert (data / target).read_bytes() == (ROOT / source).read_bytes()


def test_the_metadata_says_what_pip_and_the_index_need(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as files:
        metadata = email.message_from_bytes(files.read(f"sandrl-{built.version}.dist-info/METADATA"))
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0 AND BSD-3-Clause AND MIT"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert str(metadata.get_payload()).startswith("# ")
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])


def test_another_time_place_umask_and_permissions_give_the_same_bytes(built: Built, tmp_path: Path) -> None:
    other = Path(shutil.copytree(built.repository, tmp_path / "a longer" / "place"))
    for path in other.rglob("*"):
        if ".git" not in path.parts:
            os.utime(path, (1, 1_000_000_000))
            path.chmod(0o700 if path.is_dir() else 0o600)
    (tmp_path / "dist").mkdir()
    program = (
        "import sys; from pathlib import Path; from tools import release; "
        "release.build(Path(sys.argv[1]), 'HEAD', Path(sys.argv[2]))"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(other), str(tmp_path / "dist")],
        cwd=ROOT,
        check=True,
        umask=0o077,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1", "TZ": "Asia/Tokyo"},
    )
    for package in (built.sdist, built.wheel):
        assert (tmp_path / "dist" / package.name).read_bytes() == package.read_bytes(), package.name


def test_packages_have_no_caches_and_no_owner(built: Built) -> None:
    with tarfile.open(built.sdist) as files:
        members = files.getmembers()
    assert {(each.uid, each.gid, each.uname) for each in members} == {(0, 0, "")}
    assert {each.mode for each in members} <= {0o644, 0o755}
    assert not [each.name for each in members if re.search(r"__pycache__|\.pyc$|\.egg-info|/\.venv", each.name)]


def test_relative_links_become_text_where_there_is_no_address() -> None:
    assert long_description(README, source=None, version="1.2") == (
        "# Title\n\nPages, [an address](https://example.org), [a section](#title).\n\nThe end.\n"
    )


def test_relative_links_lead_to_the_released_version_where_there_is_one() -> None:
    text = long_description(README, source="https://example.org/ann/sandrl/", version="1.2")
    assert "[Pages](https://example.org/ann/sandrl/blob/v1.2/docs/index.md#start)" in text
    assert "![A picture](https://example.org/ann/sandrl/raw/v1.2/docs/a.svg)" in text
    assert '<source srcset="https://example.org/ann/sandrl/raw/v1.2/docs/dark.png">' in text
    assert "[an address](https://example.org), [a section](#title)" in text


def test_a_changed_tree_is_not_released(built: Built, tmp_path: Path) -> None:
    other = Path(shutil.copytree(built.repository, tmp_path / "other"))
    release.check_clean(other)
    (other / "new.py").touch()
    with pytest.raises(release.ReleaseError, match=r"^uncommitted: new\.py; commit"):
        release.check_clean(other)


@pytest.mark.parametrize(
    ("changelog", "problem"),
    [
        (
            "## [Unreleased]\n\n- A.\n",
            f"no section for 0.1.0; give its changes the heading `## [0.1.0] - {date.today()}`",
        ),
        ("## [0.1.0]\n\n- A.\n", "the section for 0.1.0 has no date"),
        ("## [0.1.0] - soon\n\n- A.\n", "the section for 0.1.0 has no date"),
        ("## [0.1.0] - 2026-02-30\n\n- A.\n", "the section for 0.1.0 has no date"),
        ("## [0.1.0] - 2026-02-03\n\n## [0.0.9] - 2026-02-01\n\n- A.\n", "the section for 0.1.0 lists no changes"),
    ],
)
def test_a_version_without_a_dated_section_of_changes_is_not_released(changelog: str, problem: str) -> None:
    with pytest.raises(release.ReleaseError, match=re.escape(problem)):
        release.check_changelog(changelog, "0.1.0")
    release.check_changelog("## [0.1.0] - 2026-02-03\n\n### Added\n\n- A.\n", "0.1.0")


def test_the_last_lines_name_the_files_their_digests_and_the_way_to_upload_them(built: Built) -> None:
    text = release.instructions("0.1.0", [built.wheel], has_source=False)
    assert re.search(rf"^[0-9a-f]{{64}}  {re.escape(str(built.wheel))}$", text, re.MULTILINE)
    assert "git tag -a v0.1.0 -m 'sandrl 0.1.0' && git push origin v0.1.0" in text
    assert f"uv publish {built.wheel}" in text


def test_the_man_page_has_every_command_and_no_mistake_of_format() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    heads = re.findall(r"^\.SH (.*)$", text, re.MULTILINE)
    assert heads == [
        *("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO")
    ]
    for command in ("sandrl reward", "sandrl runs show", "sandrl sandboxes cleanup"):
        assert f".SS \\fB{command}\\fR" in text
    if shutil.which("man") is None:
        pytest.skip("no man")
    for width in ("80", "120"):
        done = subprocess.run(
            ["man", "--warnings", "-l", str(ROOT / PAGE)],
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "MANWIDTH": width},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stderr == ""
        assert "--fail-under" in done.stdout


@pytest.mark.slow
def test_twine_finds_nothing(built: Built) -> None:
    pytest.importorskip("twine", reason="twine is in .venv-release only")
    release.check_metadata([built.sdist, built.wheel])
