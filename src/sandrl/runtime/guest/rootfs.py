"""The file system of a sandbox: a template prepared once, and a small fresh root per sandbox.

The fork server builds the template (read-only views of the host's programs, a few made files, the devices) in a
mount namespace of its own and makes it its root, so that nothing else of the host exists for anything it starts.
A sandbox then gets an empty, size-limited tmpfs as root, in which it sees the parts of the template.

The kernel keeps locks, leases and watches with the inode of a file, and what two sandboxes see as the same file would
have one inode. So a sandbox sees each part through an overlay file system of its own, which has inodes of its own over
the same files and shares their pages. Where the kernel refuses that, the part is bound, and shared. The device nodes
are shared in any case: a user namespace has no others.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
from typing import Any, TypeAlias

from sandrl.runtime.guest import syscalls as sc
from sandrl.runtime.guest import volumes

USER_ID = 1000
USER_NAME = "sandbox"
HOSTNAME = "sandbox"
WORKING_DIRECTORY = "/workspace"
WRITABLE_HOME = "/var/sandbox"
LIBRARIES = "/run/sandrl/lib"  # shared libraries of the interpreter that are in neither its prefix nor `/usr`

PARTS = "/run/sandrl/parts"  # what a worker makes the files of its cells of

_AT_RECURSIVE = 0x8000
_PTS_OPTIONS = "newinstance,ptmxmode=0666,mode=0600,max=16"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
PREBUILT = "prebuilt"  # in the directory of overlays: what every sandbox sees in /opt
TOP_LEVEL = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC_FROM_HOST = (
    # The certificates that programs trust.
    *("ssl/certs", "ssl/cert.pem", "pki/tls/certs", "pki/ca-trust/extracted"),
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
Part: TypeAlias = "list[tuple[str, str]]"
"""Directories and files of the template, and where in the part each is shown; the first is the part itself."""
Template: TypeAlias = dict[str, Part]
"""The parts by their paths in the template, the current root."""
_ETC_OF_NETWORK = {"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n", "resolv.conf": ""}
_PLAIN = ("opt", "srv", "mnt", "run", "sys", "root")
_NOTHING = "run/nothing"  # an empty file of a sandbox's own
# An overlay has two layers at least. What may be a layer itself, being empty, needs the other one as its second.
_EMPTY, _NO_LAYER = "empty", "none"
_SPECIAL_IN_OPTIONS = frozenset(":,\\")
_EINVAL = 22


def etc_from_host() -> list[str]:
    """What a sandbox sees of the host's `/etc`, as paths below it."""
    return sorted({name for pattern in _ETC_FROM_HOST for name in glob.glob(pattern, root_dir="/etc")})


def _read_only(path: str) -> None:
    sc.set_mount_attributes(sc.ATTR_RDONLY | sc.ATTR_NOSUID, place=path, flags=_AT_RECURSIVE)


def _bind(source: str, target: str, *, writable: bool = False) -> None:
    sc.mount(source, target, flags=sc.MS_BIND | sc.MS_REC)
    if not writable:
        _read_only(target)


def touch(path: str) -> None:
    """Make an empty file where there is none."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))


def build_template(root: str, images: list[Image], shown: dict[str, str]) -> Template:
    """Assemble the template on a directory, in the caller's private mount namespace, and move into it.

    An image has `name` (`3.11`), `prefix`, `executable` and `libraries` of a host interpreter. `shown` are directories
    of the host by their names in the template, or empty: `overlays` of packages; `layers` of other images, unless each
    sandbox is given that when it boots; and `spaces`, which are written to.
    """
    sc.mount("none", "/", flags=sc.MS_REC | sc.MS_PRIVATE)
    prefixes = [image["prefix"] for image in images]
    trees = tuple(f"{path}/" for path in ("/usr", *(f"/{name}" for name in TOP_LEVEL), *prefixes))
    mounts = [path for path in _mounts() if path.startswith(trees) and os.path.exists(path)]
    # Sources may lie below the directory that is about to be covered, so they are opened first.
    paths = {
        *filter(None, shown.values()),
        *prefixes,
        *(path for i in images for _, path in i["libraries"]),
        *mounts,
    }
    sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths}
    sc.mount("tmpfs", root, "tmpfs", sc.MS_NOSUID | sc.MS_NODEV, "size=1g,nr_inodes=64k,mode=755")
    os.chdir(root)
    names = ("usr", "images", "libraries", "mounts", "etc", "dev", "proc", "newroot", "space")
    for name in (*names, *shown, _EMPTY, _NO_LAYER):
        os.mkdir(name, 0o755)
    _bind(_EMPTY, _EMPTY)
    template: Template = {}

    def add(path: str, name: str) -> None:
        """Adds a directory of the host, and what is mounted in it, each by itself.

        What is mounted in it is not to be seen in the template: no overlay can be made of a directory that is covered
        in part, because it would show what is covered.
        """
        source = f"/proc/self/fd/{sources[path]}" if path in sources else path
        part = template[f"/{name}"] = [(f"/{name}", "")]
        try:
            sc.mount(source, name, flags=sc.MS_BIND)
        except OSError as error:
            if error.errno != _EINVAL:
                raise
            # This user may not uncover what the host has covered.
            sc.mount(source, name, flags=sc.MS_BIND | sc.MS_REC)
        else:
            for number, mount in enumerate(each for each in mounts if each.startswith(f"{path}/")):
                place = f"mounts/{name.replace('/', '-')}-{number}"
                (os.mkdir if os.path.isdir(f"/proc/self/fd/{sources[mount]}") else touch)(place)
                _bind(f"/proc/self/fd/{sources[mount]}", place)
                part.append((f"/{place}", mount.removeprefix(path)))
        _read_only(name)
        part += [(f"/{_EMPTY}", place) for place in _places_of_packages(name)]

    add("/usr", "usr")
    for name in TOP_LEVEL:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), name)
        elif os.path.isdir(f"/{name}"):
            os.mkdir(name)
            add(f"/{name}", name)
    for name, path in shown.items():
        if path:
            _bind(f"/proc/self/fd/{sources[path]}", name, writable=name == "spaces")
    for image in images:
        target = f"images/{image['name']}"
        os.mkdir(target)
        if image["prefix"] == "/usr":
            _make_image(image, target)
        else:
            add(image["prefix"], target)
        if image["libraries"]:
            _copy_libraries(image, sources)
    _make_etc()
    _make_dev()
    # Only where a whole /proc is in sight does the kernel let a namespace mount its own.
    sc.mount("/proc", "proc", flags=sc.MS_BIND | sc.MS_REC)
    for descriptor in sources.values():
        os.close(descriptor)
    sc.pivot_root_here(".")
    return template


def mounts_overlays() -> bool:
    """Whether the kernel has overlays in user namespaces, with attributes that any user can set; in the template."""
    try:
        sc.mount("overlay", "/newroot", "overlay", sc.MS_RDONLY, f"userxattr,lowerdir=/{_EMPTY}:/{_NO_LAYER}")
    except OSError:
        return False
    sc.unmount("/newroot")
    return True


def protect(target: str) -> None:
    """Make one mount read-only."""
    sc.mount("none", target, flags=sc.MS_REMOUNT | sc.MS_BIND | sc.MS_RDONLY | sc.MS_NOSUID | sc.MS_NODEV)


def _mounts() -> list[str]:
    with open("/proc/self/mountinfo", "rb") as file:
        words = [line.split()[4] for line in file]
    found = [re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), word) for word in words]
    return list(dict.fromkeys(map(os.fsdecode, found)))


def _places_of_packages(name: str) -> list[str]:
    # Where the interpreters below a directory have third-party packages, which are hidden: an image has none.
    pattern = "lib/python3*/*-packages"
    found = sorted(glob.glob(pattern, root_dir=name))
    return [f"/{path}" for path in found if path.endswith(("/site-packages", "/dist-packages"))]


def _make_image(image: Image, target: str) -> None:
    # The interpreter is among the host's programs already; it only needs the names an image gives it.
    os.makedirs(f"{target}/bin")
    os.makedirs(f"{target}/lib/python{image['name']}/dist-packages")
    for alias in ("python", "python3"):
        os.symlink(image["executable"], f"{target}/bin/{alias}")
    _bind(target, target)  # every sandbox of this image shares it


def _copy_libraries(image: Image, sources: dict[str, int]) -> None:
    # Copies: a file that is mounted by itself has no inode but its own.
    folder = f"libraries/{image['name']}"
    os.mkdir(folder)
    for name, path in image["libraries"]:
        shutil.copy(f"/proc/self/fd/{sources[path]}", f"{folder}/{name}")
    # All sandboxes of this image share it, and they may have its owner's user id.
    _bind(folder, folder)


def _make_etc() -> None:
    for name, text in _ETC_MADE.items():
        with open(f"etc/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    for name in etc_from_host():
        # Copies: a file that is mounted by itself has no inode but its own.
        source = os.path.realpath(f"/etc/{name}")
        with contextlib.suppress(OSError):  # what this user must not read, a sandbox does not see
            if os.path.isdir(source):
                shutil.copytree(source, f"etc/{name}", symlinks=True)
            elif os.path.isfile(source):
                os.makedirs(os.path.dirname(f"etc/{name}"), exist_ok=True)
                shutil.copy(source, f"etc/{name}")
    sc.mount("etc", "etc", flags=sc.MS_BIND | sc.MS_REC)
    _read_only("etc")


def _make_dev() -> None:
    for name in _DEVICES:
        touch(f"dev/{name}")
        sc.mount(f"/dev/{name}", f"dev/{name}", flags=sc.MS_BIND)


def show_dev(root: str) -> None:
    """Fill the directory `dev` of a root, which is the sandbox's own: an overlay has no devices."""
    os.mkdir(f"{root}/dev/pts")
    for name, target in (
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ):
        os.symlink(target, f"{root}/dev/{name}")
    for name in _DEVICES:
        touch(f"{root}/dev/{name}")
        sc.mount(f"/dev/{name}", f"{root}/dev/{name}", flags=sc.MS_BIND)
    sc.mount("devpts", f"{root}/dev/pts", "devpts", sc.MS_NOSUID | sc.MS_NOEXEC, _PTS_OPTIONS)


class Parts:
    """Shows the parts of the template in a sandbox."""

    def __init__(self, template: Template, *, for_cells: bool) -> None:
        self._template = template
        self.for_cells = for_cells
        self._shown: dict[str, str] = {}

    def show(self, part: str, target: str) -> None:
        """Make a part of the template visible as `target`."""
        for source, place in self._template.get(part, [(part, "")]):
            second = _NO_LAYER if source == f"/{_EMPTY}" else _EMPTY
            if not _overlay(source, target + place, f"/{second}"):
                sc.mount(source, target + place, flags=sc.MS_BIND | sc.MS_REC)
            self._shown[target + place] = source

    def show_again(self, root: str) -> None:
        """Show a worker each part once more as it is, with nothing mounted in it.

        Its cells have overlays of these: the kernel has no overlays on overlays, where the host's files are on some.
        Their names are the paths of the parts, in which `%` stands for `/`.
        """
        for place, source in self._shown.items():
            target = root + place_of_part(place.removeprefix(root))
            (os.makedirs if os.path.isdir(source) else touch)(target)
            sc.mount(source, target, flags=sc.MS_BIND)


def place_of_part(path: str) -> str:
    """Where a part is shown once more, with nothing mounted in it."""
    return f"{PARTS}/{path.replace('/', '%')}"


def replace_parts() -> None:
    """Replace what a sandbox shares with others by files with inodes of its own, in a sandbox of another launcher.

    That launcher has shown the parts in `PARTS`, and the caller is the sandbox's only process. Where only the launcher
    may make namespaces, nothing is changed.
    """
    user, group = os.getuid(), os.getgid()
    scratch, home = "/sys", os.path.dirname(PARTS)
    try:
        sc.unshare(sc.CLONE_NEWUSER | sc.CLONE_NEWNS)
        sc.write_maps(os.getpid(), [[user, user, 1]], [[group, group, 1]])
        sc.mount("tmpfs", scratch, "tmpfs", sc.MS_NOSUID | sc.MS_NODEV, "size=1g,nr_inodes=64k,mode=755")
    except OSError:
        return
    os.makedirs(f"{scratch}/{_EMPTY}")
    os.makedirs(f"{scratch}/home/{os.path.basename(PARTS)}")
    touch(f"{scratch}/nothing")
    with contextlib.suppress(OSError):  # what this user must not read
        shutil.copytree("/etc", f"{scratch}/etc", symlinks=True)
    if os.path.isdir(LIBRARIES):
        shutil.copytree(LIBRARIES, f"{scratch}/home/{os.path.basename(LIBRARIES)}")
    for name in sorted(os.listdir(PARTS)):
        source, target = f"{PARTS}/{name}", name.replace("%", "/")
        if not _overlay(source, target, f"{scratch}/{_EMPTY}"):
            sc.mount(source, target, flags=sc.MS_BIND | sc.MS_REC)
    for name, target in (("etc", "/etc"), ("home", home), ("nothing", "/proc/locks")):
        sc.mount(f"{scratch}/{name}", target, flags=sc.MS_BIND)
        protect(target)
    sc.unmount(scratch)


def _overlay(source: str, target: str, empty: str) -> bool:
    if _SPECIAL_IN_OPTIONS.intersection(source) or not os.path.isdir(source):
        return False
    try:
        flags = sc.MS_RDONLY | sc.MS_NOSUID | sc.MS_NODEV
        sc.mount("overlay", target, "overlay", flags, f"lowerdir={source}:{empty}")
    except OSError:
        return False
    return True


def enter_root(
    parts: Parts,
    image: str,
    overlay: str | None,
    disk_bytes: int,
    inodes: int,
    directories: list[str],
    mounts: list[volumes.Mount],
    resolver: str,
) -> None:
    """Build a sandbox's root from the template (the current root) and move into it; the template is gone then.

    All that is writable has `disk_bytes` together; `directories` are made writable besides the usual ones. `resolver`
    is what `/etc/resolv.conf` says; empty without a network.
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
            parts.show(f"/{name}", f"{root}/{name}")
    volumes.attach(volumes.prepare(mounts, f"{root}{volumes.HOME}"), root)
    for name in (*WRITABLE, *(path.lstrip("/") for path in directories)):
        os.makedirs(f"{root}/{name}", exist_ok=True)
        sc.mount(f"{root}/{name}", f"{root}/{name}", flags=sc.MS_BIND)
    parts.show("/usr", f"{root}/usr")
    parts.show(f"/images/{image}", f"{root}/usr/local")
    if os.path.isdir(f"/libraries/{image}"):
        os.makedirs(f"{root}{LIBRARIES}", exist_ok=True)
        parts.show(f"/libraries/{image}", f"{root}{LIBRARIES}")
    if overlay is not None:
        _show_packages(parts, root, image, overlay)
    if os.path.isdir(f"/overlays/{PREBUILT}"):
        parts.show(f"/overlays/{PREBUILT}", f"{root}/opt")
    parts.show("/etc", f"{root}/etc")
    if resolver:
        _show_resolver(root, resolver)
    show_dev(root)
    # Shared memory counts against the one disk limit, wherever it is asked for.
    os.symlink("/var/tmp", f"{root}/dev/shm")
    sc.mount("proc", f"{root}/proc", "proc", sc.MS_NOSUID | sc.MS_NODEV | sc.MS_NOEXEC)
    touch(f"{root}/{_NOTHING}")
    if parts.for_cells:
        parts.show_again(root)
    # The places mounted above stay writable.
    protect(root)
    if not parts.for_cells:
        # It shows locks that other sandboxes and the host have. A cell can have a /proc of its own only where all of
        # its worker's is in sight, and hides this itself.
        sc.mount(f"{root}/{_NOTHING}", f"{root}/proc/locks", flags=sc.MS_BIND)
    sc.pivot_root_here(root)
    os.chdir(WORKING_DIRECTORY)


def _show_resolver(root: str, resolver: str) -> None:
    for name, text in (_ETC_OF_NETWORK | {"resolv.conf": resolver}).items():
        own = f"{root}/run/{name}"
        with open(own, "w", encoding="utf-8") as file:
            file.write(text)
        sc.mount(own, f"{root}/etc/{name}", flags=sc.MS_BIND)
        protect(f"{root}/etc/{name}")


def _show_packages(parts: Parts, root: str, image: str, overlay: str) -> None:
    for kind in ("site-packages", "dist-packages"):
        target = f"{root}/usr/local/lib/python{image}/{kind}"
        if os.path.isdir(target):
            parts.show(f"/overlays/{overlay}", target)
            return
    raise FileNotFoundError(f"image python:{image} has no directory for packages")
