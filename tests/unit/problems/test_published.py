"""The named sets of the hub: each at a commit, in files that are known, reached by its name and by its repository."""

from __future__ import annotations

import re

import pytest

from sandrl.errors import InputError
from sandrl.problems.hub import HubDataset
from sandrl.problems.published import PUBLISHED
from sandrl.problems.sources import NAMED_SETS, find_source, named_set


@pytest.mark.parametrize(
    ("name", "dataset"), [(name, dataset) for name, (_, dataset) in PUBLISHED.items()], ids=list(PUBLISHED)
)
def test_a_set_is_pinned_to_files_of_a_commit_and_its_name_and_repository_mean_the_same(
    name: str, dataset: HubDataset
) -> None:
    assert re.fullmatch(r"[0-9a-f]{40}", dataset.revision)
    assert dataset.files
    for patterns in dataset.files.values():
        assert patterns
        assert all(pattern.endswith((".parquet", ".jsonl")) for pattern in patterns)
    named = named_set(name)
    assert named is not None
    assert named is named_set(dataset.repository)
    for split in dataset.files:
        assert find_source(f"{name}:{split}").name == f"{dataset.repository.rpartition('/')[2]}:{split}"
    with pytest.raises(InputError, match=f"{name} has no split 'nothing'") as caught:
        find_source(f"{name}:nothing")
    assert caught.value.hint == "use one of its splits: " + ", ".join(dataset.files)


def test_names_differ() -> None:
    names = [name for each in NAMED_SETS for name in (each.name, each.repository) if name]
    assert len(set(names)) == len(names)


def test_a_release_of_live_code_bench_has_those_before_it() -> None:
    _, dataset = PUBLISHED["livecodebench"]
    assert dataset.files["release_v1"] == dataset.files["v1"] == ("test.jsonl",)
    assert dataset.files["release_v6"] == tuple(dataset.files[f"v{number}"][0] for number in range(1, 7))
