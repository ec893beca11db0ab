"""What is an address, and what of one may be kept."""

from __future__ import annotations

import pytest

from sandrl.addresses import check_address, is_of_this_machine, refuse_password, without_credentials
from sandrl.errors import UsageError


@pytest.mark.parametrize("address", ["http://localhost:8000/v1", "HTTPS://example.test", "http://[::1]:80"])
def test_an_address_is_one(address: str) -> None:
    check_address(address, "base_url")
    refuse_password(address, "base_url")


@pytest.mark.parametrize("address", ["", "localhost:8000", "ftp://host/v1", "http://", "http://host:port/v1"])
def test_what_is_no_address_is_refused_with_what_to_do(address: str) -> None:
    with pytest.raises(UsageError, match="base_url is not an address") as caught:
        check_address(address, "base_url", hint="leave it out")
    assert caught.value.hint == "leave it out"


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="base_url contains a user or password") as caught:
        refuse_password("http://me:hunter2@localhost:8000/v1", "base_url")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(UsageError) as caught:
        check_address("ftp://me:hunter2@host", "base_url")
    assert "hunter2" not in str(caught.value)


def test_an_address_that_is_kept_never_carries_credentials() -> None:
    assert without_credentials("http://127.0.0.1:50051") == "http://127.0.0.1:50051"
    assert "secret" not in without_credentials("https://secret@h/secretless?secret#secret").replace("secretless", "")


def test_this_machine_is_known_by_its_names() -> None:
    assert is_of_this_machine("http://localhost:8000/v1")
    assert is_of_this_machine("http://[::1]:80")
    assert not is_of_this_machine("https://localhost.example.test")
