"""Creates the tiny policy, or loads it from the cache.

The cache directory of a policy is named after its recipe, contains digests of its files, and is created by one rename.
A process uses a complete directory and replaces an incomplete one. The lock only prevents two processes from creating
the same policy at the same time; correctness does not depend on it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sandrl.config.words import TINY
from sandrl.errors import SandrlError
from sandrl.events import Emit, PolicyBuilding, PolicyReady, ignore
from sandrl.files import new_directory, read_regular
from sandrl.models import libraries
from sandrl.problems.tiny import KINDS, tasks
from sandrl.settings import private_directory
from sandrl.tiny.chat import RESPONSE_TEMPLATE
from sandrl.tiny.demonstrations import Course
from sandrl.tiny.recipe import Recipe
from sandrl.tiny.tokenizer import train_tokenizer
from sandrl.tiny.warmup import warm_up

_FOLDER = "policies"
_TOKENIZER = "tokenizer_config.json"

MANIFEST = "tiny_policy.json"
"""The file with the recipe and the digests of all others."""

TINY_COURSE = Course(tuple(kind.name for kind in KINDS), tasks("train"))
"""What the tiny policy learns from."""


def tiny_policy(cache_dir: Path, *, seed: int = 0, recipe: Recipe | None = None, emit: Emit = ignore) -> Path:
    """Finds the tiny policy in the cache, or makes it there, which takes about half a minute.

    Returns a directory for `from_pretrained` of transformers, not to be written to. The seed of another recipe does not
    count.
    """
    began = time.monotonic()
    recipe = replace(recipe or Recipe(), seed=seed)
    directory = _folder(cache_dir) / _name(recipe)
    is_cached = is_whole(directory)
    if not is_cached:
        with _locked(directory.with_name(f".{directory.name}.lock")):
            # Another process may have made it while this one waited.
            is_cached = is_whole(directory)
            if not is_cached:
                _replace(directory, recipe, emit)
    emit(PolicyReady(TINY, str(directory), time.monotonic() - began, is_cached))
    return directory


def find_tiny_policy(cache_dir: Path, *, seed: int = 0) -> Path | None:
    """The tiny policy in the cache, if it was made before; makes nothing."""
    directory = cache_dir / _FOLDER / _name(Recipe(seed=seed))
    return directory if is_whole(directory) else None


def _name(recipe: Recipe) -> str:
    return f"{TINY}-{recipe.seed}-{recipe.digest}"


def copy_tiny_policy(target: Path, cache_dir: Path, *, seed: int = 0, emit: Emit = ignore) -> None:
    """Puts the tiny policy into a directory of the user's, which must not exist, or be empty."""
    with new_directory(target) as directory:
        # Its files are the user's own; those of the cache are private.
        cached = tiny_policy(cache_dir, seed=seed, emit=emit)
        for path in cached.iterdir():
            shutil.copyfile(path, directory / path.name)


_MOST_MANIFEST_BYTES = 1 << 20


def is_whole(directory: Path) -> bool:
    """Whether a policy is there with every byte it was made with."""
    try:
        digests = json.loads(read_regular(directory / MANIFEST, _MOST_MANIFEST_BYTES))["files"]
        return bool(digests) and all(_digest(directory / name) == digest for name, digest in digests.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _folder(cache_dir: Path) -> Path:
    try:
        folder = private_directory(cache_dir) / _FOLDER
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise SandrlError(f"{folder}: cannot be created: {error.strerror}", hint=_OTHER_CACHE) from error
    except SandrlError as error:
        raise SandrlError(error.message, hint=_OTHER_CACHE) from error
    return folder


_OTHER_CACHE = "set SANDRL_CACHE_DIR to a directory that only you can write"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _replace(directory: Path, recipe: Recipe, emit: Emit) -> None:
    for leftover in directory.parent.glob(f".{directory.name}.making-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{directory.name}.making-", dir=directory.parent) as temporary:
            made = Path(temporary, TINY)
            made.mkdir()
            make_policy(made, recipe, TINY_COURSE, emit)
            digests = {path.name: _digest(path) for path in sorted(made.iterdir())}
            manifest = {"recipe": asdict(recipe), "files": digests}
            (made / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
            if directory.exists():
                directory.rename(Path(temporary, "damaged"))
            made.rename(directory)
    except OSError as error:
        message = f"{directory}: the tiny policy cannot be saved: {error.strerror}"
        raise SandrlError(message, hint=_OTHER_CACHE) from error


def make_policy(directory: Path, recipe: Recipe, course: Course, emit: Emit = ignore) -> None:
    """Trains a policy by a course and saves it in a directory, without a trace in the state of the libraries."""
    torch = libraries.load("torch")

    def tell(stage: str, step: int, right: float | None) -> None:
        emit(PolicyBuilding(TINY, stage, step, right))

    threads = torch.get_num_threads()
    # More threads are no faster for a model this small, and would change its last digits with the machine.
    torch.set_num_threads(1)
    try:
        with libraries.kept_quiet():
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(recipe.seed)
                tokenizer = train_tokenizer(recipe, course)
                model = make_model(recipe, tokenizer)
                warm_up(model, tokenizer, recipe, course, tell)
            model.save_pretrained(directory)
            tokenizer.save_pretrained(directory)
        _complete(directory / _TOKENIZER)
    finally:
        torch.set_num_threads(threads)


# Not every version of transformers saves how answers are read back, and processes with others share the cache.
def _complete(config: Path) -> None:
    content = {**json.loads(config.read_bytes()), "response_template": RESPONSE_TEMPLATE}
    config.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def make_model(recipe: Recipe, tokenizer: Any) -> Any:
    """A very small Qwen 2 with random weights, drawn from torch's generator; it samples at temperature 1.0, uncut."""
    transformers = libraries.load("transformers")
    config = transformers.Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=recipe.hidden,
        intermediate_size=recipe.intermediate,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.key_value_heads,
        max_position_embeddings=recipe.positions,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        dtype="float32",
        initializer_range=recipe.spread,
    )
    model = transformers.Qwen2ForCausalLM(config)
    # Servers sample only where the model says so, and would cut its distribution at 50 tokens.
    model.generation_config = transformers.GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return model


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
