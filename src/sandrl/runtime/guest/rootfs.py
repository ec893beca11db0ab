"""The file system of a sandbox: a template prepared once, and a small fresh root per sandbox.

The fork server builds the template (read-only views of the host's programs, a few made files, the devices) in a
mount namespace of its own and makes it its root, so that nothing else of the host exists for anything it starts.
A sandbox then gets an empty, size-limited tmpfs as root and binds the parts of the template into it: about ten
mounts, none of which has to be restricted again, because a bind keeps the flags of its source.
"""

from __future__ import annotations

import ctypes
import glob
import os
from typing import Any, TypeAlias

from sandrl.runtime.guest import syscalls as sc

USER_ID = 1000
USER_NAME = "sandbox"
HOSTNAME = "sandbox"
WORKING_DIRECTORY = "/workspace"
WRITABLE_HOME = "/var/sandbox"
LIBRARIES = "/run/sandrl/lib"  # shared libraries of the interpreter that are in neither its prefix nor `/usr`

_AT_RECURSIVE = 0x8000
_AT_FDCWD = -100
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_MOUNT_SETATTR = 442
_PTS_OPTIONS = "newinstance,ptmxmode=0666,mode=0600,max=16"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
PREBUILT = "prebuilt"  # in the directory of overlays: what every sandbox sees in /opt
TOP_LEVEL = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC_FROM_HOST = (
    *("ld.so.cache", "localtime", "alternatives", "mime.types", "services", "protocols"),
    # Debian's packages of programming languages link from `/usr` to their configuration; Java and R do not start
    # without it. Sandboxes do not see what PHP's web server reads, nor R's `Renviron.site` and `Rprofile.site`, which
    # may have tokens of package repositories.
    *("java-*-openjdk", "R/Makeconf", "R/Renviron", "R/ldpaths", "R/repositories"),
    *("perl", "php/*/cli", "php/*/mods-available"),
)
_ETC_MADE = {
    "passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\n{USER_NAME}:x:{USER_ID}:{USER_ID}::/home/{USER_NAME}:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": f"root:x:0:\n{USER_NAME}:x:{USER_ID}:\nnogroup:x:65534:\n",
    "hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost\n",
    "hostname": f"{HOSTNAME}\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "resolv.conf": "",
    "os-release": 'NAME="sandrl sandbox"\nID=sandrl\n',
}
WRITABLE = ("tmp", "var/tmp", "workspace", f"home/{USER_NAME}")
Image: TypeAlias = dict[str, Any]
_PLAIN = ("opt", "srv", "mnt", "run", "sys", "root")


def etc_from_host() -> list[str]:
    """What a sandbox sees of the host's `/etc`, as paths below it."""
    return sorted({name for pattern in _ETC_FROM_HOST for name in glob.glob(pattern, root_dir="/etc")})


def _read_only(path: str) -> None:
    """Make a mount and everything mounted below it read-only, without set-uid programs."""
    attributes = (ctypes.c_uint64 * 4)(_ATTR_RDONLY | _ATTR_NOSUID, 0, 0, 0)
    result = sc.libc_syscall(_MOUNT_SETATTR, _AT_FDCWD, path.encode(), _AT_RECURSIVE, attributes, 32)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount_setattr {path}: {os.strerror(number)}")


def _bind(source: str, target: str, *, writable: bool = False) -> None:
    sc.mount(source, target, flags=sc.MS_BIND | sc.MS_REC)
    if not writable:
        _read_only(target)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))


def build_template(root: str, images: list[Image], overlays: str) -> None:
    """Assemble the template below `root`, in the caller's private mount namespace, and move into it.

    Args:
        root: An existing directory; a tmpfs is mounted on it.
        images: Each with `name` (`3.11`), `prefix`, `executable` and `libraries` of a host interpreter.
        overlays: Directory of package overlays, shown as `overlays`.
    """
    sc.mount("none", "/", flags=sc.MS_REC | sc.MS_PRIVATE)
    # Sources may lie below the directory that is about to be covered, so they are opened first.
    paths = {overlays, *(i["prefix"] for i in images), *(path for i in images for _, path in i["libraries"])}
    sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths}
    sc.mount("tmpfs", root, "tmpfs", sc.MS_NOSUID | sc.MS_NODEV, "size=16m,nr_inodes=4k,mode=755")
    os.chdir(root)
    for name in ("usr", "overlays", "images", "libraries", "etc", "dev", "proc", "newroot", "empty"):
        os.mkdir(name, 0o755)
    _bind("/usr", "usr")
    for name in TOP_LEVEL:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), name)
        elif os.path.isdir(f"/{name}"):
            os.mkdir(name)
            _bind(f"/{name}", name)
    _mask_packages("usr/lib")
    _bind(f"/proc/self/fd/{sources[overlays]}", "overlays")
    for image in images:
        _add_image(image, sources)
    _make_etc()
    _make_dev()
    # Only where a whole /proc is in sight does the kernel let a namespace mount its own.
    sc.mount("/proc", "proc", flags=sc.MS_BIND | sc.MS_REC)
    for descriptor in sources.values():
        os.close(descriptor)
    sc.pivot_root_here(".")


def _mask_packages(library: str) -> None:
    """Hide third-party packages of the interpreters below a lib directory: an image has none."""
    for name in sorted(os.listdir(library)):
        if not name.startswith("python3"):
            continue
        for kind in ("site-packages", "dist-packages"):
            if os.path.isdir(f"{library}/{name}/{kind}"):
                _bind("empty", f"{library}/{name}/{kind}")


def _add_image(image: Image, sources: dict[str, int]) -> None:
    if image["libraries"]:
        folder = f"libraries/{image['name']}"
        os.mkdir(folder)
        for name, path in image["libraries"]:
            _touch(f"{folder}/{name}")
            _bind(f"/proc/self/fd/{sources[path]}", f"{folder}/{name}")
        # All sandboxes of this image share it, and they may have its owner's user id.
        _bind(folder, folder)
    target = f"images/{image['name']}"
    os.mkdir(target)
    if image["prefix"] == "/usr":
        # The interpreter is among the host's programs already; it only needs the names an image gives it.
        os.makedirs(f"{target}/bin")
        os.makedirs(f"{target}/lib/python{image['name']}/dist-packages")
        for alias in ("python", "python3"):
            os.symlink(image["executable"], f"{target}/bin/{alias}")
        _bind(target, target)  # every sandbox of this image shares it
        return
    sc.mount(f"/proc/self/fd/{sources[image['prefix']]}", target, flags=sc.MS_BIND | sc.MS_REC)
    _read_only(target)
    _mask_packages(f"{target}/lib")


def _make_etc() -> None:
    for name, text in _ETC_MADE.items():
        with open(f"etc/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    for name in etc_from_host():
        source = f"/etc/{name}"
        if os.path.isdir(source):
            os.makedirs(f"etc/{name}")
            _bind(source, f"etc/{name}")
        elif os.path.isfile(source):
            os.makedirs(os.path.dirname(f"etc/{name}"), exist_ok=True)
            _touch(f"etc/{name}")
            _bind(os.path.realpath(source), f"etc/{name}")
    sc.mount("etc", "etc", flags=sc.MS_BIND | sc.MS_REC)
    _read_only("etc")


def _make_dev() -> None:
    for name in _DEVICES:
        _touch(f"dev/{name}")
        sc.mount(f"/dev/{name}", f"dev/{name}", flags=sc.MS_BIND)
    os.mkdir("dev/pts")
    for name, target in (
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        # Shared memory counts against the one disk limit, wherever it is asked for.
        ("shm", "/var/tmp"),
    ):
        os.symlink(target, f"dev/{name}")
    # A bind of the directory onto itself can be made read-only apart from the devices mounted in it.
    sc.mount("dev", "dev", flags=sc.MS_BIND | sc.MS_REC)
    sc.mount("none", "dev", flags=sc.MS_REMOUNT | sc.MS_BIND | sc.MS_RDONLY | sc.MS_NOSUID)


def enter_root(image: str, overlay: str | None, disk_bytes: int, inodes: int, directories: list[str]) -> None:
    """Build a sandbox's root from the template (the current root) and move into it; the template is gone then.

    Args:
        image: Version of the interpreter.
        overlay: Name of a package overlay, or None.
        disk_bytes: Size of everything writable together.
        inodes: Number of files of everything writable together.
        directories: Absolute paths to make writable besides the usual ones.
    """
    root = "/newroot"
    options = f"size={disk_bytes},nr_inodes={inodes},mode=755"
    sc.mount("tmpfs", root, "tmpfs", sc.MS_NOSUID | sc.MS_NODEV, options)
    for name in ("usr", "etc", "dev", "proc", "var", "home", *_PLAIN):
        os.mkdir(f"{root}/{name}", 0o755)
    for name in WRITABLE:
        os.mkdir(f"{root}/{name}", 0o755)
    for name in ("tmp", "var/tmp"):
        os.chmod(f"{root}/{name}", 0o1777)
    for name in TOP_LEVEL:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{root}/{name}")
        elif os.path.isdir(f"/{name}"):
            os.mkdir(f"{root}/{name}")
            sc.mount(f"/{name}", f"{root}/{name}", flags=sc.MS_BIND | sc.MS_REC)
    for name in (*WRITABLE, *(path.lstrip("/") for path in directories)):
        os.makedirs(f"{root}/{name}", exist_ok=True)
        sc.mount(f"{root}/{name}", f"{root}/{name}", flags=sc.MS_BIND)
    sc.mount("/usr", f"{root}/usr", flags=sc.MS_BIND | sc.MS_REC)
    sc.mount(f"/images/{image}", f"{root}/usr/local", flags=sc.MS_BIND | sc.MS_REC)
    if os.path.isdir(f"/libraries/{image}"):
        os.makedirs(f"{root}{LIBRARIES}", exist_ok=True)
        sc.mount(f"/libraries/{image}", f"{root}{LIBRARIES}", flags=sc.MS_BIND | sc.MS_REC)
    if overlay is not None:
        _mount_overlay(root, image, overlay)
    if os.path.isdir(f"/overlays/{PREBUILT}"):
        sc.mount(f"/overlays/{PREBUILT}", f"{root}/opt", flags=sc.MS_BIND | sc.MS_REC)
    sc.mount("/etc", f"{root}/etc", flags=sc.MS_BIND | sc.MS_REC)
    sc.mount("/dev", f"{root}/dev", flags=sc.MS_BIND | sc.MS_REC)
    sc.mount("devpts", f"{root}/dev/pts", "devpts", sc.MS_NOSUID | sc.MS_NOEXEC, _PTS_OPTIONS)
    sc.mount("proc", f"{root}/proc", "proc", sc.MS_NOSUID | sc.MS_NODEV | sc.MS_NOEXEC)
    # The places mounted above stay writable.
    sc.mount("none", root, flags=sc.MS_REMOUNT | sc.MS_BIND | sc.MS_RDONLY | sc.MS_NOSUID | sc.MS_NODEV)
    sc.pivot_root_here(root)
    os.chdir(WORKING_DIRECTORY)


def _mount_overlay(root: str, image: str, overlay: str) -> None:
    """Show the packages of an overlay where this image's interpreter looks for third-party ones."""
    for kind in ("site-packages", "dist-packages"):
        target = f"{root}/usr/local/lib/python{image}/{kind}"
        if os.path.isdir(target):
            sc.mount(f"/overlays/{overlay}", target, flags=sc.MS_BIND | sc.MS_REC)
            return
    raise FileNotFoundError(f"image python:{image} has no directory for packages")
