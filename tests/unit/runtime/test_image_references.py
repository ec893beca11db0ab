"""Names of images are read as registries and Docker read them."""

from __future__ import annotations

import pytest

from sandrl.errors import InputError
from sandrl.runtime.images.references import parse_reference

_DIGEST = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("text", "key", "shown"),
    [
        ("python", "docker.io/library/python:latest", "python:latest"),
        ("python:3.13-slim", "docker.io/library/python:3.13-slim", "python:3.13-slim"),
        ("docker.io/library/python:3", "docker.io/library/python:3", "python:3"),
        ("index.docker.io/python:3", "docker.io/library/python:3", "python:3"),
        ("swe/repo", "docker.io/swe/repo:latest", "swe/repo:latest"),
        ("ghcr.io/a/b_c/d-e:V1.0", "ghcr.io/a/b_c/d-e:V1.0", "ghcr.io/a/b_c/d-e:V1.0"),
        ("localhost/x", "localhost/x:latest", "localhost/x:latest"),
        ("localhost:5000/x:1", "localhost:5000/x:1", "localhost:5000/x:1"),
        ("[::1]:5000/x", "[::1]:5000/x:latest", "[::1]:5000/x:latest"),
        (f"python@{_DIGEST}", f"docker.io/library/python@{_DIGEST}", f"python@{_DIGEST}"),
        (f"h.io/x:1@{_DIGEST}", f"h.io/x@{_DIGEST}", f"h.io/x:1@{_DIGEST}"),
    ],
)
def test_the_spellings_of_a_name_have_one_key(text: str, key: str, shown: str) -> None:
    reference = parse_reference(text)
    assert (reference.key, str(reference)) == (key, shown)
    assert parse_reference(str(reference)) == reference


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "@", "a:", "A", "a/B", "a//b", "/a", "a/", "-a", "a b", "a:b c", "../a", "a/../b", "a\n", "ä"),
        *("a@sha256:1", f"a@sha256:{'g' * 64}", f"a@sha512:{'a' * 128}", "a" * 256, "h.io:port/a", "h.io:123456/a"),
        *("http://h.io/a", f"a@{_DIGEST}@{_DIGEST}", f"a@{_DIGEST}:1"),
    ],
)
def test_other_texts_are_no_names(text: str) -> None:
    with pytest.raises(InputError, match="is not the name of an image"):
        parse_reference(text)
