"""The named sets of the hub: each at a commit, in files that are known, reached by its name and by its repository."""

from __future__ import annotations

import re

import pytest

from sandrl.errors import InputError
from sandrl.problems.named import NAMED_SETS, named_set
from sandrl.problems.published import PUBLISHED, PublishedSet
from sandrl.problems.sources import find_source

EACH = pytest.mark.parametrize("published", PUBLISHED, ids=lambda each: each.name)


@EACH
def test_a_set_is_pinned_to_a_commit_and_knows_its_files(published: PublishedSet) -> None:
    dataset = published.dataset
    assert re.fullmatch(r"[0-9a-f]{40}", dataset.revision)
    assert published.splits
    for patterns in dataset.files.values():
        assert patterns
        assert all(pattern.endswith((".parquet", ".jsonl")) for pattern in patterns)


@EACH
def test_name_and_repository_mean_the_same_set(published: PublishedSet) -> None:
    named = named_set(published.name)
    assert named is not None
    assert named is named_set(published.dataset.repository)
    for split in published.splits:
        name = published.dataset.repository.rpartition("/")[2]
        assert find_source(f"{published.name}:{split}").name == f"{name}:{split}"
    with pytest.raises(InputError, match=f"{published.name} has no split 'nothing'") as caught:
        find_source(f"{published.name}:nothing")
    assert caught.value.hint == "use one of its splits: " + ", ".join(published.splits)


def test_names_differ() -> None:
    names = [name for each in NAMED_SETS for name in (each.name, each.repository) if name]
    assert len(set(names)) == len(names)


def test_a_release_of_live_code_bench_has_those_before_it() -> None:
    files = next(each for each in PUBLISHED if each.name == "livecodebench").dataset.files
    assert files["release_v1"] == files["v1"] == ("test.jsonl",)
    assert files["release_v6"] == tuple(files[f"v{number}"][0] for number in range(1, 7))
