"""Credentials of registries: the files and helpers of Docker and Podman."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sandrl.runtime.images.credentials import Credential, Found, find_credential

SECRET = "s3cret:with colon"


def entry(user: str = "ada", secret: str = SECRET) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{secret}".encode()).decode()}


def found(directory: Path, document: Any, host: str, repository: str = "a/b", **variables: str) -> Found:
    (directory / "config.json").write_text(document if isinstance(document, str) else json.dumps(document))
    return find_credential(host, repository, {"DOCKER_CONFIG": str(directory), "PATH": os.defpath, **variables})


def user_of(found: Found) -> str:
    return "" if found.credential is None else found.credential.username


def write_helper(directory: Path, script: str) -> dict[str, str]:
    program = directory / "docker-credential-test"
    program.write_text(f'#!/bin/sh\necho "$@" > {directory}/arguments\ncat > {directory}/input\n{script}\n')
    program.chmod(0o755)
    return {"PATH": f"{directory}:{os.defpath}"}


@pytest.mark.parametrize(
    ("key", "host"),
    [
        ("localhost:5000", "localhost:5000"),
        ("https://ghcr.io", "ghcr.io"),
        ("https://ghcr.io/v2/", "ghcr.io"),
        ("ghcr.io/", "ghcr.io"),
        ("https://index.docker.io/v1/", "docker.io"),
        ("docker.io", "docker.io"),
        ("registry-1.docker.io", "docker.io"),
        ("ghcr.io/a", "ghcr.io"),
        ("ghcr.io/a/b", "ghcr.io"),
    ],
)
def test_a_registry_is_found_by_all_names_that_tools_give_it(tmp_path: Path, key: str, host: str) -> None:
    credential = found(tmp_path, {"auths": {key: entry()}}, host).credential
    assert credential is not None
    assert (credential.username, credential.password) == ("ada", SECRET)


@pytest.mark.parametrize("key", ["ghcr.io.evil.example", "ghcr.io/other", "ghcr.io/a/b/c", "ghcr.io/ab", "ghcr.io:443"])
def test_a_credential_of_another_place_is_not_used(tmp_path: Path, key: str) -> None:
    assert found(tmp_path, {"auths": {key: entry()}}, "ghcr.io") == Found("ghcr.io")


def test_the_most_specific_credential_is_used(tmp_path: Path) -> None:
    auths = {"ghcr.io": entry("host"), "ghcr.io/a": entry("part"), "ghcr.io/a/b": entry("whole")}
    assert user_of(found(tmp_path, {"auths": auths}, "ghcr.io")) == "whole"
    assert user_of(found(tmp_path, {"auths": auths}, "ghcr.io", "a/c")) == "part"
    assert user_of(found(tmp_path, {"auths": auths}, "ghcr.io", "c")) == "host"


def test_user_and_password_may_be_fields_of_their_own(tmp_path: Path) -> None:
    fields = {"username": "ada", "password": SECRET}
    credential = found(tmp_path, {"auths": {"ghcr.io": fields}}, "ghcr.io").credential
    assert credential is not None
    assert credential.basic == "Basic " + base64.b64encode(f"ada:{SECRET}".encode()).decode()


def test_the_files_are_read_in_their_order(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path / "home"), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    places = {
        "file": tmp_path / "file.json",
        "docker": tmp_path / "home" / ".docker" / "config.json",
        "session": tmp_path / "run" / "containers" / "auth.json",
        "user": tmp_path / "home" / ".config" / "containers" / "auth.json",
    }
    for name, path in places.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"auths": {"ghcr.io": entry(name)}}))
    assert (
        user_of(find_credential("ghcr.io", "a", {**environment, "REGISTRY_AUTH_FILE": str(places["file"])})) == "file"
    )
    for name in ("docker", "session", "user"):
        assert user_of(find_credential("ghcr.io", "a", environment)) == name
        places[name].unlink()
    assert find_credential("ghcr.io", "a", environment) == Found("ghcr.io")
    assert find_credential("ghcr.io", "a", {}) == Found("ghcr.io")
    named = str(tmp_path / "nowhere")
    problem = f"{named} cannot be read: No such file or directory"
    assert find_credential("ghcr.io", "a", {"REGISTRY_AUTH_FILE": named}) == Found("ghcr.io", problem=problem)


def test_a_helper_gets_the_registry_on_its_input_and_its_answer_is_used(tmp_path: Path) -> None:
    path = write_helper(tmp_path, """echo '{"ServerURL": "x", "Username": "ada", "Secret": "s3cret"}'""")
    for document in ({"credHelpers": {"ghcr.io": "test"}}, {"credsStore": "test", "auths": {"ghcr.io": {}}}):
        credential = found(tmp_path, document, "ghcr.io", **path).credential
        assert credential == Credential("docker-credential-test", "ada", "s3cret")
        assert (tmp_path / "arguments").read_text() == "get\n"
        assert (tmp_path / "input").read_text() == "ghcr.io"


def test_a_helper_is_asked_for_docker_hub_by_the_name_that_docker_gives_it(tmp_path: Path) -> None:
    answer = f"grep -q index.docker.io/v1/ {tmp_path}/input && " """echo '{"Username": "ada", "Secret": "s3cret"}'"""
    path = write_helper(tmp_path, answer)
    assert user_of(found(tmp_path, {"credsStore": "test"}, "docker.io", **path)) == "ada"


def test_a_helper_may_give_an_identity_token(tmp_path: Path) -> None:
    path = write_helper(tmp_path, """echo '{"Username": "<token>", "Secret": "t1"}'""")
    credential = found(tmp_path, {"credsStore": "test"}, "ghcr.io", **path).credential
    assert credential == Credential("docker-credential-test", identity_token="t1")


def test_a_helper_without_a_credential_is_no_problem(tmp_path: Path) -> None:
    path = write_helper(tmp_path, "echo credentials not found in native keychain; exit 1")
    assert found(tmp_path, {"credsStore": "test"}, "ghcr.io", **path) == Found("ghcr.io")


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo s3cret; exit 3", "docker-credential-test failed with exit code 3"),
        ("echo s3cret", "docker-credential-test gave an answer that is not valid JSON"),
    ],
)
def test_what_a_broken_helper_prints_is_in_no_message(tmp_path: Path, script: str, problem: str) -> None:
    path = write_helper(tmp_path, script)
    assert found(tmp_path, {"credsStore": "test"}, "ghcr.io", **path) == Found("ghcr.io", problem=problem)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"credsStore": "nowhere"}, "docker-credential-nowhere, which FILE names, is not installed"),
        ({"credsStore": "../test"}, "docker-credential-../test, which FILE names, is not installed"),
        ({"auths": {"ghcr.io": {"auth": "s3cret!"}}}, "FILE: a field 'auth' is not USER:PASSWORD in Base64"),
        ("{s3cret", "FILE is not valid JSON"),
        ("[" * 100_000, "FILE is not valid JSON"),
        ([1], "FILE is not a JSON object"),
    ],
)
def test_a_file_that_cannot_be_used_is_said_without_its_content(tmp_path: Path, document: Any, problem: str) -> None:
    (tmp_path / "test").write_text("#!/bin/sh\n")
    expected = problem.replace("FILE", str(tmp_path / "config.json"))
    assert found(tmp_path, document, "ghcr.io", PATH=str(tmp_path)) == Found("ghcr.io", problem=expected)


@pytest.mark.parametrize("document", [{"auths": []}, {"auths": {"ghcr.io": 7}}, {"credHelpers": "x"}, {}])
def test_fields_of_another_kind_are_no_credential(tmp_path: Path, document: Mapping[str, Any]) -> None:
    assert found(tmp_path, document, "ghcr.io") == Found("ghcr.io")


def test_a_file_that_never_ends_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to("/dev/zero")
    problem = find_credential("ghcr.io", "a", {"DOCKER_CONFIG": str(tmp_path)}).problem
    assert problem == f"{tmp_path / 'config.json'} cannot be read: is not a regular file"


def test_no_secret_is_in_a_representation(tmp_path: Path) -> None:
    fields = {**entry(), "identitytoken": "t0ken"}
    shown = repr(found(tmp_path, {"auths": {"ghcr.io": fields}}, "ghcr.io"))
    assert "ada" in shown
    assert not any(secret in shown for secret in (SECRET, "t0ken", fields["auth"]))
