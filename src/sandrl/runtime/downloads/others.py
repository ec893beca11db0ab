"""The registries of npm, the proxies of apt, the proxies of the environment, and the certificates of all programs."""

from __future__ import annotations

import base64
import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from sandrl.runtime.downloads.gathered import CERTIFICATES, PLACE, Gathered

_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")
_NPM = re.compile(
    r"registry|@[^:/]+:registry|//.*:(?:_authToken|_auth|username|_password|email|always-auth)|"
    r"(?:https?-)?proxy|noproxy|strict-ssl|fetch-(?:retries|timeout)|maxsockets"
)
_NPM_ADDRESS = re.compile(r"(?:@[^:/]+:)?registry|(?:https?-)?proxy")
_VARIABLE = re.compile(r"\$\{([^}]+)\}")
_APT = re.compile(
    r"(?m)^(Acquire::(?:(?:http|https|ftp)::(?:Proxy(?:::\S+)?|Timeout|Verify-Peer|Verify-Host|CaInfo)|Retries|"
    r"Check-Valid-Until|Check-Date)) \"([^\"\n]*)\";$"
)
_APT_SECONDS = 20.0
APT_CERTIFICATES = "Acquire::https::CaInfo"
"""The setting of apt that names a file with certificates."""
_CERTIFICATE = re.compile(rb"-----BEGIN (?:TRUSTED )?CERTIFICATE-----\s+([A-Za-z0-9+/=\s]+?)-----END")
# Programs take the first of their variables instead of the system's certificates.
_FILE_VARIABLES = (
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "DENO_CERT", "NIX_SSL_CERT_FILE", "HTTPLIB2_CA_CERTS", "PERL_LWP_SSL_CA_FILE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "npm_config_cafile", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
)  # fmt: skip
# Where administrators put certificates of their own, by distribution.
_ANCHORS = (
    "/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors", "/etc/ca-certificates/trust-source/anchors",
    "/etc/pki/trust/anchors",
)  # fmt: skip
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)  # fmt: skip
_MOST_IN_DIRECTORY = 2000


def proxies_of(source: Mapping[str, str]) -> dict[str, str]:
    """The proxies of the environment by `http` and `https`, and as `no` the names that need none."""
    lower = {name.lower(): value for name, value in sorted(source.items()) if value}
    found = {scheme: lower.get(f"{scheme}_proxy") or lower.get("all_proxy", "") for scheme in ("http", "https")}
    return {name: value for name, value in (found | {"no": lower.get("no_proxy", "")}).items() if value}


def add_proxies(gathered: Gathered) -> None:
    """Adds the proxies of the environment, by both forms of their names: programs read one or the other."""
    for name in _PROXIES:
        value = gathered.source.get(name) or gathered.source.get(name.upper(), "")
        if value:
            gathered.address(value)
            gathered.environment[name] = gathered.environment[name.upper()] = value
    direct = gathered.source.get("no_proxy") or gathered.source.get("NO_PROXY", "")
    if direct:
        gathered.environment["no_proxy"] = gathered.environment["NO_PROXY"] = direct


def add_npm(gathered: Gathered, *, with_proxies: bool) -> list[Path]:
    """Adds the registries of npm, in place of the image's global file; returns the certificates that it names."""
    source = gathered.source
    shared = source.get("npm_config_globalconfig") or source.get("NPM_CONFIG_GLOBALCONFIG")
    own = source.get("npm_config_userconfig") or source.get("NPM_CONFIG_USERCONFIG")
    program = shutil.which("npm", path=source.get("PATH", os.defpath))
    prefix = [Path(program).parent.parent / "etc" / "npmrc"] if program else []
    files = [Path(shared)] if shared else [Path("/etc/npmrc"), *prefix]
    options: dict[str, str] = {}
    for path in [*files, *([Path(own)] if own else gathered.home(".npmrc"))]:
        content = gathered.content(path)
        for line in ("" if content is None else content.decode("utf-8", "replace")).splitlines():
            name, equals, value = (part.strip() for part in line.partition("="))
            if equals and not name.startswith(("#", ";")):
                options[name] = _VARIABLE.sub(lambda found: source.get(found[1], found[0]), value.strip("\"'"))
    for variable, value in source.items():
        if variable.lower().startswith("npm_config_") and value:
            options[variable[len("npm_config_") :].lower().replace("_", "-")] = value
    certificates = [Path(options["cafile"])] if options.get("cafile") else []
    given = {name: value for name, value in options.items() if _NPM.fullmatch(name)}
    if not with_proxies:
        given = {name: value for name, value in given.items() if not name.endswith("proxy")}
    for name, value in given.items():
        if _NPM_ADDRESS.fullmatch(name):
            gathered.address(value)
    if given:
        lines = "".join(f"{name}={value}\n" for name, value in given.items())
        gathered.files[f"{PLACE}/npmrc"] = lines.encode()
        gathered.environment["NPM_CONFIG_GLOBALCONFIG"] = f"{PLACE}/npmrc"
    return certificates


def add_apt(gathered: Gathered, settings: dict[str, str], *, is_recorded: bool) -> None:
    """Adds the proxies of apt, and how it checks; a recording is also valid when it has become old."""
    for name, value in [*settings.items()]:
        if "::Proxy" in name:
            if is_recorded:
                del settings[name]
            elif value.upper() != "DIRECT":
                gathered.address(value)
    if is_recorded:
        settings["Acquire::Check-Valid-Until"] = "false"
    settings.pop(APT_CERTIFICATES, None)
    if CERTIFICATES in gathered.files:
        settings[APT_CERTIFICATES] = CERTIFICATES
    if settings:
        text = "".join(f'{name} "{value}";\n' for name, value in settings.items())
        gathered.files[f"{PLACE}/apt.conf"] = text.encode()
        gathered.environment["APT_CONFIG"] = f"{PLACE}/apt.conf"


def apt_settings(gathered: Gathered) -> dict[str, str]:
    """What apt is configured to do on this machine, as far as sandboxes are given it."""
    program = shutil.which("apt-config", path=gathered.source.get("PATH", os.defpath))
    if program is None:
        return {}
    environment = {"PATH": gathered.source.get("PATH", os.defpath), "LC_ALL": "C"}
    if gathered.source.get("APT_CONFIG"):
        environment["APT_CONFIG"] = gathered.source["APT_CONFIG"]
    try:
        done = subprocess.run(
            [program, "dump", "Acquire"], capture_output=True, env=environment, timeout=_APT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        gathered.warnings.append("apt-config failed: the proxies of apt are left out")
        return {}
    return {found[1]: found[2] for found in _APT.finditer(done.stdout.decode("utf-8", "replace")) if found[2]}


def add_certificates(gathered: Gathered, named: list[Path], authority: bytes) -> None:
    """Adds one file with the certificates of this machine, and those that the user's variables name besides.

    Nothing is added where the user has named no certificates, and this machine has none but its distribution's: the
    certificates of the image are right then.

    Args:
        named: Files that other configurations name.
        authority: What sandboxes must trust besides, in PEM.
    """
    source = gathered.source
    files = [*named, *(Path(source[name]) for name in _FILE_VARIABLES if source.get(name))]
    for directory in source.get("SSL_CERT_DIR", "").split(":"):
        files += _in_directory(Path(directory)) if os.path.isabs(directory) else []
    anchors = [path for directory in _ANCHORS for path in _in_directory(Path(directory))]
    if not (files or anchors or authority):
        return
    system = ssl.get_default_verify_paths().cafile
    bundle = next((Path(each) for each in (*_BUNDLES, system) if each and Path(each).is_file()), None)
    if bundle is None:
        import certifi

        bundle = Path(certifi.where())
    found: dict[bytes, None] = {}
    for path in dict.fromkeys([bundle, *files]):
        content = gathered.content(path, is_needed=path in files)
        found |= dict.fromkeys(_certificates(b"" if content is None else content))
    text = authority + b"".join(ssl.DER_cert_to_PEM_cert(each).encode() for each in found)
    gathered.files[CERTIFICATES] = text
    own = [name for name in _FILE_VARIABLES[6:] if source.get(name)]
    gathered.environment |= dict.fromkeys((*_FILE_VARIABLES[:6], *own, "CARGO_HTTP_CAINFO", "DENO_CERT"), CERTIFICATES)
    gathered.environment["npm_config_cafile"] = CERTIFICATES
    # GNU's wget knows no variable for them.
    gathered.files[f"{PLACE}/wgetrc"] = f"ca_certificate = {CERTIFICATES}\n".encode()
    gathered.environment["WGETRC"] = f"{PLACE}/wgetrc"


def _certificates(content: bytes) -> Iterator[bytes]:
    for found in _CERTIFICATE.findall(content):
        try:
            yield base64.b64decode(b"".join(found.split()), validate=True)
        except ValueError:
            continue


def _in_directory(path: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(path))[:_MOST_IN_DIRECTORY]
    except OSError:
        return []
    return [path / name for name in names if name.endswith((".crt", ".pem", ".0", ".cer"))]
