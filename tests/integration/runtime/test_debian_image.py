"""A whole distribution as an image: its package manager, users and setuid programs, as in a container."""

from __future__ import annotations

import os
import subprocess

import pytest
from cwsandbox import Session

from sandrl.runtime.images.store import ImageStore
from sandrl.settings import load_settings
from tests.support.programs import require_program

pytestmark = pytest.mark.slow

PACKAGE = """
mkdir -p /build/DEBIAN /build/usr/bin && echo '#!/bin/sh' > /build/usr/bin/greet && chmod 755 /build/usr/bin/greet
printf 'Package: greet\\nVersion: 1\\nArchitecture: all\\nMaintainer: x\\nDescription: x\\n' > /build/DEBIAN/control
printf '#!/bin/sh\\nadduser --system --group greeter && chown greeter /usr/bin/greet\\n' > /build/DEBIAN/postinst
chmod 755 /build/DEBIAN/postinst && dpkg-deb --build /build /greet.deb && dpkg --install /greet.deb
stat -c %U /usr/bin/greet && greet && dpkg --verify greet
dpkg --purge greet && test ! -e /usr/bin/greet
"""
USERS = """
set -e
useradd --create-home bob && su bob -c 'id -un; touch ~/mine; test ! -w /etc/passwd'
stat -c %U /home/bob/mine
rm -rf /usr/share/doc && mkdir /usr/share/doc && ls /usr/share/doc && mv /usr/share/man /usr/share/manuals
"""


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a small Debian, stored from the archive that mmdebstrap makes."""
    mmdebstrap = require_program("mmdebstrap")
    archive = tmp_path_factory.mktemp("debian") / "debian.tar"
    options = ["--variant=minbase", "--include=adduser", "--quiet"]
    made = subprocess.run([mmdebstrap, *options, "bookworm", archive], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"mmdebstrap made no image: {made.stderr[-200:]}")
    return ImageStore(load_settings().cache_dir / "images").add_file(f"rootfs:{archive}").digest


def test_its_package_manager_installs_and_removes_with_users_of_its_own(session: Session, debian: str) -> None:
    result = session.sandbox(container_image=debian).exec(["bash", "-c", f"set -e\n{PACKAGE}"]).result()
    assert result.returncode == 0, result.stderr
    assert "greeter" in result.stdout.splitlines()


def test_its_users_are_users_and_its_directories_can_be_made_anew(session: Session, debian: str) -> None:
    result = session.sandbox(container_image=debian).exec(["bash", "-c", USERS]).result()
    assert (result.returncode, result.stdout) == (0, "bob\nbob\n"), result.stderr


def test_the_owners_of_its_files_are_those_of_the_archive_if_root_stores_it(session: Session, debian: str) -> None:
    command = ["stat", "-c", "%u %g %a", "/var/cache/apt/archives/partial", "/usr/bin/su", "/etc/shadow"]
    lines = session.sandbox(container_image=debian).exec(command).result().stdout.splitlines()
    if os.getuid() == 0:
        assert lines == ["42 0 700", "0 0 4755", "0 42 640"]
