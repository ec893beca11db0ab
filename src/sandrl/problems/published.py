"""The sets of the dataset hub that have a name: the repository of each, the files of its splits, and its revision.

A set is read from its data files, at one commit that several public projects pin, so its rows stay the same and no
script of a repository is needed. A set without a known commit has no name here; it is available as `owner/name`.
"""

from __future__ import annotations

from sandrl.problems.hub import HubDataset


def _tables(folder: str, *splits: str) -> dict[str, tuple[str, ...]]:
    return {split: (f"{folder}/{split}-*.parquet",) for split in splits}


_BIGCODEBENCH = _tables("data", "v0.1.4", "v0.1.3", "v0.1.2", "v0.1.1", "v0.1.0_hf")
# Each version adds a file to those before it.
_LIVE_CODE_BENCH = tuple(f"test{number or ''}.jsonl" for number in (0, 2, 3, 4, 5, 6))
_LIVE_CODE_BENCH_SPLITS = {
    **{f"release_v{count}": _LIVE_CODE_BENCH[:count] for count in range(6, 0, -1)},
    **{f"v{number}": (file,) for number, file in enumerate(_LIVE_CODE_BENCH, 1)},
}
_DEEPCODER: dict[str, tuple[str, ...]] = {
    "train": tuple(f"{part}/train-*.parquet" for part in ("primeintellect", "taco", "lcbv5")),
    "test": tuple(f"{part}/test-*.parquet" for part in ("codeforces", "lcbv5")),
    "primeintellect": ("primeintellect/train-*.parquet",),
    "taco": ("taco/train-*.parquet",),
    "lcbv5": ("lcbv5/train-*.parquet",),
    "lcbv5_test": ("lcbv5/test-*.parquet",),
    "codeforces": ("codeforces/test-*.parquet",),
}
_MULTIPL_E_LANGUAGES = ("cpp", "go", "java", "js", "lua", "php", "pl", "r", "rb", "rs", "sh", "ts")
_MULTIPL_E = {
    f"{base}-{language}": (f"{base}-{language}/test-*.parquet",)
    for base in ("humaneval", "mbpp")
    for language in _MULTIPL_E_LANGUAGES
}

MBPP_DATASET = HubDataset(
    "google-research-datasets/mbpp", revision="4bb6404fdc6cacfda99d4ac4205087b89d32030c", configuration="full"
)
HUMANEVAL_DATASET = HubDataset("openai/openai_humaneval", revision="7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544")

PUBLISHED = {
    "humanevalplus": (
        "HumanEval+ of EvalPlus",
        HubDataset("evalplus/humanevalplus", "d32357cf319e50e9c8d8dab5ea876c72b0fd321b", files=_tables("data", "test")),
    ),
    "mbppplus": (
        "MBPP+ of EvalPlus",
        HubDataset("evalplus/mbppplus", "b2d74c91837c3f2a20c1299ae98133cbe7cfa077", files=_tables("data", "test")),
    ),
    "bigcodebench": (
        "tasks that use libraries",
        HubDataset("bigcode/bigcodebench", "b74c0d0bf70d2c0bc459be537895cca163007f1a", files=_BIGCODEBENCH),
    ),
    "bigcodebench-hard": (
        "the hard ones of BigCodeBench",
        HubDataset(
            "bigcode/bigcodebench-hard", "298d2cc7b96612e15e47313c3603ee124cee0c1f", files=_tables("data", "v0.1.4")
        ),
    ),
    "livecodebench": (
        "LiveCodeBench, lite",
        HubDataset(
            "livecodebench/code_generation_lite",
            "0fe84c3912ea0c4d4a78037083943e8f0c4dd505",
            files=_LIVE_CODE_BENCH_SPLITS,
        ),
    ),
    "apps": (
        "programs and functions",
        HubDataset(
            "codeparrot/apps",
            "21e74ddf8de1a21436da12e3e653065c5213e9d1",
            files={"train": ("train.jsonl",), "test": ("test.jsonl",)},
        ),
    ),
    "taco": (
        "programs and functions",
        HubDataset("BAAI/TACO", "d593ed0a2becbbc952230bb89be09189bf1056dc", files=_tables("ALL", "train", "test")),
    ),
    "codecontests": (
        "programs, with many cases each",
        HubDataset(
            "deepmind/code_contests",
            "802411c3010cb00d1b05bad57ca77365a3c699d6",
            files=_tables("data", "train", "valid", "test"),
        ),
    ),
    "codeforces": (
        "programs with checkers: the verifiable ones of open-r1",
        HubDataset(
            "open-r1/codeforces",
            "fbe3f6e903ee854eec2e69e9d96d0306cde59baf",
            files=_tables("verifiable", "train", "test"),
        ),
    ),
    "deepcoder": (
        "DeepCoder-Preview",
        HubDataset(
            "agentica-org/DeepCoder-Preview-Dataset", "177913a7bd43791646ef6a43645caa3c871ab3db", files=_DEEPCODER
        ),
    ),
    "multipl-e": (
        "HumanEval and MBPP in other languages",
        HubDataset("nuprl/MultiPL-E", "28441b6024e71d4a1c1c0f6bf171c935cd5a43f2", files=_MULTIPL_E),
    ),
}
"""The sets by name: a few words about each, and where it is."""
