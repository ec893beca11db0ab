"""Sandboxes get the indexes, proxies and certificates of the user, and no message has their secrets."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import trustme
from tests.support.programs import require_program

from sandrl.runtime.downloads.gathered import PLACE
from sandrl.runtime.downloads.settings import DownloadSettings, download_settings, permitted_settings
from sandrl.runtime.network import Network
from sandrl.settings import NetworkMode


def settings_of(home: Path, authority: bytes = b"", **variables: str) -> DownloadSettings:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CONFIG_DIRS": str(home / "xdg")}
    return download_settings(environment | variables, authority=authority)


def text_of(settings: DownloadSettings, name: str) -> str:
    return settings.files[f"{PLACE}/{name}"].decode()


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_files_and_variables_of_pip_are_one_file_in_its_order(tmp_path: Path) -> None:
    write(tmp_path / "xdg/pip/pip.conf", "[global]\nindex-url = http://shared.test/simple\ntimeout = 7\nuser = yes\n")
    write(
        tmp_path / ".config/pip/pip.conf",
        "[global]\nindex_url = https://ada:hidden@own.test:8443/simple\n[install]\ntrusted-host = own.test\n",
    )
    settings = settings_of(tmp_path, PIP_RETRIES="9", PIP_EXTRA_INDEX_URL="http://more.test/a http://more.test/b")
    text = text_of(settings, "pip.conf")
    assert settings.environment["PIP_CONFIG_FILE"] == f"{PLACE}/pip.conf"
    for line in ("index-url = https://ada:hidden@own.test:8443/simple", "timeout = 7", "retries = 9"):
        assert line in text.splitlines()
    assert "shared.test" not in text
    assert "user" not in text
    assert "trusted-host = own.test" in text.partition("[install]")[2]
    assert {"own.test:8443", "more.test:80"} <= {*settings.reachable}
    assert settings.unverified == ("own.test",)
    assert "hidden" not in repr(settings)


def test_an_index_on_disk_is_left_out_with_a_warning(tmp_path: Path) -> None:
    index = (tmp_path / "mirror/simple").as_uri()
    settings = settings_of(
        tmp_path, PIP_INDEX_URL="http://a.test/simple", PIP_EXTRA_INDEX_URL=f"{index} http://b.test/x"
    )
    text = text_of(settings, "pip.conf")
    assert "mirror" not in text
    assert "http://b.test/x" in text
    assert [each for each in settings.warnings if "mirror/simple" in each and "do not see" in each]


def test_uv_has_its_own_indexes_or_those_of_pip(tmp_path: Path) -> None:
    of_pip = settings_of(tmp_path, PIP_INDEX_URL="http://a.test/simple", PIP_EXTRA_INDEX_URL="http://b.test/simple")
    assert of_pip.environment["UV_DEFAULT_INDEX"] == "http://a.test/simple"
    assert of_pip.environment["UV_INDEX"] == "http://b.test/simple"
    write(
        tmp_path / ".config/uv/uv.toml",
        'index = [{name = "own", url = "http://own.test/simple"}, {url = "http://d.test/x", default = true}]\n',
    )
    own = settings_of(tmp_path, PIP_INDEX_URL="http://a.test/simple", UV_INDEX_OWN_PASSWORD="hidden")
    assert own.environment["UV_DEFAULT_INDEX"] == "http://d.test/x"
    assert own.environment["UV_INDEX"] == "own=http://own.test/simple"
    assert own.environment["UV_INDEX_OWN_PASSWORD"] == "hidden"
    assert {"own.test:80", "d.test:80"} <= {*own.reachable}
    other = settings_of(tmp_path, UV_DEFAULT_INDEX="http://e.test/")
    assert other.environment["UV_DEFAULT_INDEX"] == "http://e.test/"


def test_credentials_of_netrc_are_those_of_their_index_alone(tmp_path: Path) -> None:
    path = write(
        tmp_path / ".netrc", "machine own.test login ada password p@ss\nmachine other.test login b password c\n"
    )
    path.chmod(0o600)
    settings = settings_of(tmp_path, PIP_INDEX_URL="https://own.test/simple")
    assert "index-url = https://ada:p%40ss@own.test/simple" in text_of(settings, "pip.conf")
    assert "other.test" not in "".join(each.decode("latin-1") for each in settings.files.values())


def test_npm_has_the_registries_of_the_user_with_their_tokens(tmp_path: Path) -> None:
    write(
        tmp_path / ".npmrc",
        "registry=https://npm.test/\n//npm.test/:_authToken=${TOKEN}\n@own:registry = http://own.test:4873/\nfund=false\n",
    )
    settings = settings_of(tmp_path, TOKEN="hidden", npm_config_fetch_retries="5")
    lines = text_of(settings, "npmrc").splitlines()
    assert settings.environment["NPM_CONFIG_GLOBALCONFIG"] == f"{PLACE}/npmrc"
    assert {"registry=https://npm.test/", "//npm.test/:_authToken=hidden", "fetch-retries=5"} <= {*lines}
    assert "fund=false" not in lines
    assert {"npm.test:443", "own.test:4873"} <= {*settings.reachable}
    assert "hidden" not in repr(settings)


def test_apt_has_the_proxies_and_checks_of_this_machine(tmp_path: Path) -> None:
    require_program("apt-config")
    path = write(
        tmp_path / "apt.conf",
        'Acquire::http::Proxy "http://ada:hidden@cache.test:3142"; Acquire::http::Proxy::local.test "DIRECT";\n'
        'APT::Install-Recommends "false";\n',
    )
    settings = settings_of(tmp_path, APT_CONFIG=str(path))
    text = text_of(settings, "apt.conf")
    assert 'Acquire::http::Proxy "http://ada:hidden@cache.test:3142";' in text
    assert 'Acquire::http::Proxy::local.test "DIRECT";' in text
    assert "Recommends" not in text
    assert "cache.test:3142" in settings.reachable
    dumped = subprocess.run(
        ["apt-config", "dump", "Acquire::http"],
        env={"PATH": os.environ["PATH"], "APT_CONFIG": str(write(tmp_path / "given", text))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "cache.test:3142" in dumped.stdout


def test_proxies_have_both_forms_of_their_names_and_are_the_recorders_where_there_is_one(tmp_path: Path) -> None:
    variables = {"HTTPS_PROXY": "http://ada:hidden@proxy.test:3128", "no_proxy": "local.test"}
    settings = settings_of(tmp_path, b"", **variables)
    for name in ("https_proxy", "HTTPS_PROXY"):
        assert settings.environment[name] == variables["HTTPS_PROXY"]
    assert settings.environment["NO_PROXY"] == "local.test"
    assert "proxy.test:3128" in settings.reachable
    recorded = settings_of(tmp_path, trustme.CA().cert_pem.bytes(), PIP_PROXY="http://proxy.test:3128", **variables)
    assert not [name for name in recorded.environment if "proxy" in name.lower()]
    assert recorded.proxies == {"https": variables["HTTPS_PROXY"], "no": "local.test"}
    assert b"proxy" not in b"".join(recorded.files.values())


def test_the_certificates_of_all_variables_are_one_file(tmp_path: Path) -> None:
    first, second, authority = (trustme.CA() for _ in range(3))
    first.cert_pem.write_to_path(str(tmp_path / "first.pem"))
    second.issue_cert("own.test").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "second.pem"))
    variables = {"SSL_CERT_FILE": str(tmp_path / "first.pem"), "PIP_CERT": str(tmp_path / "second.pem")}
    settings = settings_of(tmp_path, authority.cert_pem.bytes(), **variables)
    text = text_of(settings, "certificates.pem")
    for each in (first, authority):
        assert each.cert_pem.bytes().decode().strip() in text
    assert text.count("BEGIN") > 3
    assert "PRIVATE" not in text
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"):
        assert settings.environment[name] == f"{PLACE}/certificates.pem"
    assert text_of(settings, "wgetrc") == f"ca_certificate = {PLACE}/certificates.pem\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".config/pip/pip.conf", "index-url = https://ada:hidden@own.test/\n"),
        (".config/pip/pip.conf", "[global]\nindex-url = https://ada:hidden@[own.test/\n"),
        (".config/pip/pip.conf", "[global]\nfind-links = /no/such/directory\n"),
        (".config/pip/pip.conf", "[global]\nconstraint = /no/such/file\n"),
        (".config/uv/uv.toml", "index = hidden"),
    ],
)
def test_what_cannot_be_used_is_said_without_its_content(tmp_path: Path, path: str, text: str) -> None:
    write(tmp_path / path, text)
    settings = settings_of(tmp_path)
    assert settings.warnings
    assert "hidden" not in "".join(settings.warnings)


def test_given_variables_win(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_INDEX_URL": "http://a.test/"}
    settings = download_settings(environment, {"PIP_INDEX_URL": "http://b.test/"})
    assert "index-url = http://b.test/" in text_of(settings, "pip.conf")
    assert "a.test" not in text_of(settings, "pip.conf")


@pytest.mark.parametrize("private", [(), ("own.test",), ("own.test:443", "proxy.test:3128")])
def test_addresses_are_for_programs_that_may_reach_all_of_them(tmp_path: Path, private: tuple[str, ...]) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "own.pem"))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PIP_INDEX_URL": "https://ada:hidden@own.test/simple",
        "https_proxy": "http://ada:hidden@proxy.test:3128",
        "SSL_CERT_FILE": str(tmp_path / "own.pem"),
    }
    network = Network.of(NetworkMode.PUBLIC, private=private)
    assert network is not None
    settings = permitted_settings(environment, network)
    assert settings.environment["PIP_CERT"] == f"{PLACE}/certificates.pem"
    assert "CERTIFICATE" in text_of(settings, "certificates.pem")
    assert "certificates.pem" in text_of(settings, "apt.conf")
    given = f"{settings.environment} {settings.files}"
    if len(private) == 2:
        assert given.count("hidden") >= 2
        assert not settings.warnings
    else:
        assert "hidden" not in given
        assert "own.test" not in given
        (warning,) = settings.warnings
        assert "proxy.test:3128" in warning
        assert ("own.test" in warning) == (not private)
        assert "hidden" not in warning
