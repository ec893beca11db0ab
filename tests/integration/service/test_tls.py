"""A service with a certificate: what encrypts, and what a client does not trust."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import trustme

from sandrl.client import ServiceClient
from sandrl.errors import ServiceError
from tests.support.service import TOKEN, running_service

INC = {"task_id": "inc", "prompt": "Add one.", "tests": ["assert f(1) == 2"]}
RIGHT = [{"task_id": "inc", "code": "def f(x): return x + 1"}]


def certificate(directory: Path, *, days: int = 2) -> tuple[Path, Path, Path]:
    authority = trustme.CA()
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    issued = authority.issue_cert("127.0.0.1", not_before=end - datetime.timedelta(days=5), not_after=end)
    chain, key, signer = directory / "chain.pem", directory / "key.pem", directory / "signer.pem"
    chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(signer)
    return chain, key, signer


def test_a_trusted_certificate_is_used_and_an_unknown_one_is_not(tmp_path: Path) -> None:
    chain, key, signer = certificate(tmp_path)
    with running_service(tmp_path, "--certificate", str(chain), "--key", str(key)) as service:
        assert service.url.startswith("https://127.0.0.1:")
        with ServiceClient(service.url, TOKEN, ca_file=signer) as client:
            assert client.score(RIGHT, [INC]).summary.total_reward == 1
        with ServiceClient(service.url, TOKEN) as client, pytest.raises(ServiceError, match="not trusted"):
            client.score(RIGHT, [INC])


def test_a_certificate_whose_time_is_over_is_said_to_be_that(tmp_path: Path) -> None:
    chain, key, signer = certificate(tmp_path, days=-1)
    words = ("--certificate", str(chain), "--key", str(key))
    with (
        running_service(tmp_path, *words) as service,
        ServiceClient(service.url, TOKEN, ca_file=signer) as client,
        pytest.raises(ServiceError, match="certificate has expired"),
    ):
        client.score(RIGHT, [INC])
