"""A service is not shown to other machines by accident."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from sandrl.config.serve import RequestOptions, ServeConfig
from sandrl.errors import UsageError
from sandrl.service.server import check_exposure, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "localhost", "127.8.9.10"])
def test_an_address_of_this_machine_needs_no_tls(host: str) -> None:
    assert is_loopback(host)
    check_exposure(ServeConfig(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "127.0.0.1.example.org"])
def test_another_address_needs_tls_or_the_users_word(host: str) -> None:
    with pytest.raises(UsageError, match="TLS"):
        check_exposure(ServeConfig(host=host))
    check_exposure(ServeConfig(host=host, insecure=True))
    check_exposure(ServeConfig(host=host, certificate=Path("c"), certificate_key=Path("k")))
    with pytest.raises(ValidationError, match="belong together"):
        ServeConfig(host=host, certificate=Path("c"))


def test_a_request_cannot_ask_for_second_opinions() -> None:
    with pytest.raises(ValidationError, match="second_opinion"):
        RequestOptions(second_opinion=0.5)
