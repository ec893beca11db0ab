"""The settings for downloads of programs in sandboxes, from what the user has for the programs of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from sandrl.runtime.downloads.gathered import CERTIFICATES, PLACE, Gathered
from sandrl.runtime.downloads.others import (
    APT_CERTIFICATES,
    add_apt,
    add_certificates,
    add_npm,
    add_proxies,
    apt_settings,
    proxies_of,
)
from sandrl.runtime.downloads.python import add_pip
from sandrl.runtime.network import Network

_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class DownloadSettings:
    """What a sandbox is given so that its programs download as the user's do. It has secrets, and is never kept.

    Attributes:
        environment: Variables; those of the image and of the step win.
        files: Contents, readable for all users of the sandbox, by path in it.
        reachable: `HOST:PORT` of indexes and proxies, which may have private addresses.
        proxies: Those of a recorder: addresses by `http` and `https`, and as `no` names that need none.
        unverified: Servers whose certificates are not checked.
        warnings: What cannot be used, and why, in one line each, without secrets.
    """

    environment: Mapping[str, str] = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)
    reachable: tuple[str, ...]
    proxies: Mapping[str, str] = field(repr=False)
    unverified: tuple[str, ...]
    warnings: tuple[str, ...]


def download_settings(
    environment: Mapping[str, str], given: Mapping[str, str] = _NO_VARIABLES, *, authority: bytes = b""
) -> DownloadSettings:
    """Reads the user's configuration of pip, uv, npm and apt, and of proxies and certificates.

    Args:
        environment: The user's environment, which names files and has settings itself.
        given: Variables that win over it, for example `PIP_INDEX_URL`, `https_proxy` or `SSL_CERT_FILE`.
        authority: The certificate of a recorder, in PEM. The recorder then uses the proxies, and no program does.
    """
    gathered = Gathered({**environment, **given})
    is_recorded = bool(authority)
    add_pip(gathered, with_proxies=not is_recorded)
    certificates = add_npm(gathered, with_proxies=not is_recorded)
    if not is_recorded:
        add_proxies(gathered)
    apt = apt_settings(gathered)
    certificates += [Path(apt[APT_CERTIFICATES])] if APT_CERTIFICATES in apt else []
    add_certificates(gathered, certificates, authority)
    add_apt(gathered, apt, is_recorded=is_recorded)
    return DownloadSettings(
        environment=gathered.environment,
        files=gathered.files,
        reachable=tuple(gathered.reachable),
        proxies=proxies_of(gathered.source) if is_recorded else {},
        unverified=tuple(gathered.unverified),
        warnings=tuple(dict.fromkeys(gathered.warnings)),
    )


def permitted_settings(environment: Mapping[str, str], network: Network) -> DownloadSettings:
    """The settings for sandboxes of programs that a user has not chosen, such as those of a model.

    Addresses and their credentials are given if the user lets programs reach all of them as private hosts;
    certificates, which are no secret, are given anyway.
    """
    found = download_settings(environment)
    hidden = [each for each in found.reachable if not _is_named(each, network)]
    if not hidden:
        return found
    names = ", ".join(hidden)
    message = f"tasks do not get your package indexes and proxies: {names} is none of the `private_hosts`"
    files = {path: found.files[path] for path in (CERTIFICATES, f"{PLACE}/wgetrc") if path in found.files}
    variables = {name: value for name, value in found.environment.items() if value in files}
    if CERTIFICATES in files:
        variables["APT_CONFIG"] = path = f"{PLACE}/apt.conf"
        files[path] = f'{APT_CERTIFICATES} "{CERTIFICATES}";\n'.encode()
    return DownloadSettings(variables, files, (), {}, (), (message,))


def _is_named(address: str, network: Network) -> bool:
    host, _, port = address.rpartition(":")
    return any(each.matches(host.strip("[]").lower(), int(port)) for each in network.private)
