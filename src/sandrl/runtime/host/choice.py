"""Chooses the way of isolating that works on this machine, by booting a sandbox.

The version and the settings of a kernel do not show what it allows, because containers, security modules and
distributions all take parts away. So each launcher is started, boots one sandbox per image, and runs its interpreter
there. The first one that works is used; if none does, no code is run.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandrl.errors import RuntimeUnavailableError
from sandrl.runtime import libraries
from sandrl.runtime.host.bubblewrap import BubblewrapLauncher
from sandrl.runtime.host.control_groups import ControlGroups, GroupsUnavailableError
from sandrl.runtime.host.images import Image
from sandrl.runtime.host.launcher import BootRequest, InterpreterError, Launcher, LaunchError
from sandrl.runtime.host.native import NativeLauncher
from sandrl.runtime.host.sandbox import HostSandbox, SandboxGoneError, StartError
from sandrl.runtime.host.users import VARIABLE, HostUsers, HostUsersError, find_users, shared_users

logger = logging.getLogger(__name__)

FORCE_VARIABLE = "SANDRL_RUNTIME_ISOLATION"
_PROGRAM = "import encodings, select, _struct, sys; print(sys.version_info[1])"
_PROBE_TIMEOUT_SECONDS = 20.0


@dataclass(frozen=True)
class Choice:
    """A launcher that works here.

    Attributes:
        images: The images it could boot, the default first.
        groups: Where the control groups of sandboxes are made; None where this user cannot make any.
    """

    launcher: Launcher
    images: list[Image]
    detail: str
    groups: ControlGroups | None
    groups_detail: str

    async def boot(self, request: BootRequest) -> HostSandbox:
        """A sandbox in a control group of its own, where there are any; see `HostSandbox.boot`."""
        return await HostSandbox.boot(self.launcher, request, self.groups)

    async def close(self) -> None:
        await self.launcher.close()
        if self.groups is not None:
            await asyncio.to_thread(self.groups.close)


async def choose_launcher(images: Sequence[Image], state: Path, overlays: Path, layers: Path | None = None) -> Choice:
    """Start the first launcher that boots the default image.

    Args:
        layers: Where the layers of other images are; None where no sandbox starts from them.

    Raises:
        RuntimeUnavailableError: If none does, with the way out.
    """
    try:
        candidates = _candidates(images, state, overlays, layers)
    except HostUsersError as error:
        raise RuntimeUnavailableError(str(error), hint=f"unset {VARIABLE}") from error
    forced = os.environ.get(FORCE_VARIABLE)
    refusals: dict[str, str] = {}
    hint = None
    for label, make in candidates:
        if forced and not label.startswith(forced):
            continue
        launcher = make()
        try:
            await launcher.start()
            await _probe(launcher, images[0])
        except InterpreterError as error:
            raise RuntimeUnavailableError(f"sandboxes cannot be started: {error}", hint=error.hint) from error
        except LaunchError as error:
            refusals[label] = str(error)
            hint = hint or error.hint
            logger.warning("isolation %s does not work here: %s", label, error)
            await launcher.close()
            continue
        except BaseException:  # interrupted: whoever asked is gone, and nothing of it may stay
            await launcher.close()
            raise
        detail = f"{FORCE_VARIABLE}={forced}" if forced else "a sandbox booted and ran its interpreter"
        if refusals:
            detail += "; " + "; ".join(f"{name} does not work: {why}" for name, why in refusals.items())
        logger.info("host users: %s", launcher.users.detail)
        bootable = [images[0], *await _bootable(launcher, images[1:])]
        groups, groups_detail = await _find_groups(launcher, images[0])
        return Choice(launcher, bootable, detail, groups, groups_detail)
    reasons = "; ".join(f"{name}: {why}" for name, why in refusals.items()) or "no way of isolating it was allowed"
    raise RuntimeUnavailableError(f"this machine cannot isolate code ({reasons})", hint=hint or _way_out())


def _candidates(
    images: Sequence[Image], state: Path, overlays: Path, layers: Path | None
) -> list[tuple[str, Callable[[], Launcher]]]:
    users = find_users(state)

    def native(who: HostUsers) -> Launcher:
        return NativeLauncher(images, state, overlays, layers, who)

    def bubblewrap() -> Launcher:
        return BubblewrapLauncher(images, overlays, users if os.getuid() == 0 else shared_users())

    if users.window is None:
        return [("native", lambda: native(users)), ("bubblewrap", bubblewrap)]
    # An interpreter that only its owner may read cannot be given to other host uids.
    return [
        ("native with own host uids", lambda: native(users)),
        ("native", lambda: native(shared_users())),
        ("bubblewrap", bubblewrap),
    ]


async def _find_groups(launcher: Launcher, image: Image) -> tuple[ControlGroups | None, str]:
    try:
        groups = ControlGroups.find()
    except GroupsUnavailableError as error:
        logger.info("no control groups: %s", error)
        return None, f"this user cannot make control groups ({error})"
    try:
        await _probe(launcher, image, groups)
    except LaunchError as error:
        await asyncio.to_thread(groups.close)
        logger.warning("control groups do not work here: %s", error)
        return None, f"control groups do not work here ({error})"
    except BaseException:
        groups.close()
        await launcher.close()
        raise
    return groups, f"a control group per sandbox (version {groups.version})"


async def _bootable(launcher: Launcher, images: Sequence[Image]) -> list[Image]:
    async def boots(image: Image) -> bool:
        try:
            await _probe(launcher, image)
        except LaunchError as error:
            logger.info("image %s is not offered: %s", image.reference, error)
            return False
        return True

    return [image for image, works in zip(images, await asyncio.gather(*map(boots, images)), strict=True) if works]


async def _probe(launcher: Launcher, image: Image, groups: ControlGroups | None = None) -> None:
    sandbox = await HostSandbox.boot(launcher, BootRequest(image.name), groups)
    try:
        _, output = await asyncio.wait_for(sandbox.run(["python", "-c", _PROGRAM], image), _PROBE_TIMEOUT_SECONDS)
    except (StartError, SandboxGoneError, TimeoutError) as error:
        raise LaunchError(f"{image.reference} did not run: {str(error) or 'no answer in time'}") from error
    finally:
        await sandbox.destroy()
    if output.strip() != image.name.partition(".")[2].encode():
        said = output.decode(errors="replace").strip()[-200:]
        missing = libraries.named_missing(said)
        advice = f"check that ldd {image.executable} finds {missing}, and that all users may read that file"
        raise LaunchError(f"{image.reference} did not run: {said}", None if missing is None else advice)


def setting(name: str) -> str:
    """A setting of the kernel, by its path below `/proc/sys`; empty if there is none."""
    try:
        return Path("/proc/sys", name).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _way_out() -> str:
    remote = "or set CWSANDBOX_API_KEY to use remote sandboxes"
    if setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor lets only selected programs create namespaces: sudo apt-get install bubblewrap, or sudo sysctl "
            f"kernel.apparmor_restrict_unprivileged_userns=0, {remote}"
        )
    if setting("kernel/unprivileged_userns_clone") == "0":
        return f"sudo sysctl kernel.unprivileged_userns_clone=1, {remote}"
    if setting("user/max_user_namespaces") == "0":
        return f"sudo sysctl user.max_user_namespaces=15000, {remote}"
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return (
            "inside a container, start it with --security-opt seccomp=unconfined "
            f"--security-opt systempaths=unconfined, {remote}"
        )
    return f"install bubblewrap, {remote}"
