"""Where the token of a service comes from."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from sandrl.errors import AuthenticationError, UsageError
from sandrl.remote.client import AsyncServiceClient, token_path
from sandrl.service.tokens import token_for
from sandrl.settings import Settings, load_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(load_settings(), state_dir=tmp_path / "state", service_token=None)


def test_a_token_that_nobody_has_set_is_in_a_file_of_its_user_alone(settings: Settings) -> None:
    with token_for(settings, 4000) as token:
        path = Path(token.place)
        assert path == token_path(settings.state_dir, 4000)
        assert path.read_text() == token.secret
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert len(token.secret) == 48
        assert token.secret not in repr(token)
        with token_for(settings, 4001) as other:
            assert not token.is_like(other.secret)
    assert not path.exists()


def test_the_users_own_token_is_in_no_file(settings: Settings) -> None:
    own = replace(settings, service_token="0123456789abcdef")
    with token_for(own, 4000) as token:
        assert token.place == "SANDRL_SERVICE_TOKEN"
        assert token.is_like("0123456789abcdef")
        assert not token_path(settings.state_dir, 4000).exists()


@pytest.mark.parametrize("secret", ["short", "with a blank in the middle", "sixteen/slashes/in", "ümläute0123456789"])
def test_a_token_that_protects_nothing_or_fits_no_address_is_refused(settings: Settings, secret: str) -> None:
    with pytest.raises(UsageError, match="SANDRL_SERVICE_TOKEN"), token_for(replace(settings, service_token=secret), 1):
        pass


def test_a_token_is_never_shown(settings: Settings) -> None:
    assert "0123456789abcdef" not in repr(replace(settings, service_token="0123456789abcdef"))
    assert "0123456789abcdef" in replace(settings, service_token="0123456789abcdef").secrets


def test_a_client_of_the_same_user_finds_the_token(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDRL_STATE_DIR", str(settings.state_dir))
    with token_for(settings, 4000) as token:
        client = AsyncServiceClient("http://127.0.0.1:4000")
        assert client._client.headers["Authorization"] == f"Bearer {token.secret}"
        with pytest.raises(AuthenticationError, match="there is no token"):
            AsyncServiceClient("http://127.0.0.1:4001")
        with pytest.raises(AuthenticationError, match="there is no token"):
            AsyncServiceClient("http://elsewhere.example:4000")


@pytest.mark.parametrize("url", ["nowhere", "ftp://127.0.0.1", "http://", "http://user:word@127.0.0.1:1"])
def test_a_client_refuses_what_is_no_address_or_has_a_password(url: str) -> None:
    with pytest.raises(UsageError, match="service"):
        AsyncServiceClient(url, "token")
