"""Overlays of installed packages, as sandboxes see them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cwsandbox import Session

from sandrl.errors import UsageError
from sandrl.installation import package_command
from sandrl.runtime.packages import build_overlay
from sandrl.runtime.state import DaemonEndpoint

IMAGE = f"python:3.{sys.version_info[1]}"


def test_named_packages_can_be_imported_with_what_they_require_and_nothing_else(
    session: Session, endpoint: DaemonEndpoint
) -> None:
    overlay = build_overlay(["rich"], endpoint.state_dir, image=IMAGE)
    assert build_overlay(["rich"], endpoint.state_dir, image=IMAGE) == overlay
    sandbox = session.sandbox(container_image=IMAGE, annotations={"sandrl.dev/packages": overlay})
    program = "import rich, pygments; print(rich.__file__)"
    assert sandbox.exec(["python", "-c", program]).result().stdout.startswith("/usr/local/lib/python")
    assert sandbox.exec(["python", "-c", "import typer"]).result().returncode == 1


def test_an_overlay_is_read_only(session: Session, endpoint: DaemonEndpoint) -> None:
    overlay = build_overlay(["rich"], endpoint.state_dir, image=IMAGE)
    sandbox = session.sandbox(container_image=IMAGE, annotations={"sandrl.dev/packages": overlay})
    program = "import os, rich; open(os.path.dirname(rich.__file__) + '/evil', 'w')"
    assert "Read-only file system" in sandbox.exec(["python", "-c", program]).result().stderr


def test_a_package_that_is_not_installed_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'no-such-package' is not installed") as error:
        build_overlay(["no-such-package"], tmp_path, image=IMAGE)
    assert error.value.hint == package_command("no-such-package")


def test_packages_of_another_python_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"python:3\.8"):
        build_overlay(["rich"], tmp_path, image="python:3.8")


def test_an_overlay_name_cannot_leave_its_directory(session: Session) -> None:
    sandbox = session.sandbox(annotations={"sandrl.dev/packages": "../../../../etc"})
    with pytest.raises(Exception, match="not a package overlay"):
        sandbox.start().result()
