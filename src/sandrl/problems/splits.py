"""The problems of a run for training and for evaluation: never the same ones, if the set is large enough.

A set with splits of its own keeps them, because published results use them. Of any other set a fifth is held out,
chosen by the problems' names, so that a set that grows keeps its held-out problems. A set too small for that is
evaluated on the problems that it was trained on, and the run reports this. A held-out problem that is also a training
problem is left out: a policy that is evaluated on a problem it was trained on shows its memory. Two problems are
duplicates if their prompts, or their checks, are equal after the removal of everything that cannot change the task:
case, white space, Unicode's several forms of a character, punctuation at the end of words, Markdown markup, and the
order and layout of checks. Quoted text stays unchanged, because its case and its blanks may be part of the task.
Similar wording is not evidence: "the 2nd largest" and "the 3rd largest" differ in one character. Tasks with the same
instruction are different ones if their machines are.
"""

from __future__ import annotations

import ast
import hashlib
import random
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias, Unpack

from sandrl.errors import InputError
from sandrl.problems.loading import Reading, load_problems
from sandrl.problems.mixture import sources_of
from sandrl.problems.problem import Problem
from sandrl.problems.profile import Profile
from sandrl.problems.quality import QualityFilter
from sandrl.problems.schedule import Part, Schedule
from sandrl.problems.similarity import Match, contaminated, near_duplicates
from sandrl.problems.sources import TEST, TRAIN, named_set
from sandrl.problems.store import joined, select
from sandrl.syntax import parse

_HELD_OUT = 5
_FEWEST = 10


@dataclass(frozen=True, slots=True)
class Splits:
    """The problems of a run; `is_held_out` if those for evaluation are not trained on.

    Attributes:
        quality: What has left some out before the split; None if nothing has.
        notes: How many rows were skipped, for each source of which some were, and what was left out for other reasons.
        parts: The training problems by source, with the weights of a mixture.
        profile: The pass rates of the training problems; None without an earlier run.
        matches: The evaluation problems that are contaminated, each with a training problem that has its words.
    """

    train: Mapping[str, Problem]
    evaluation: Mapping[str, Problem]
    is_held_out: bool
    duplicates: int = 0
    quality: QualityFilter | None = None
    notes: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    profile: Profile | None = None
    matches: tuple[Match, ...] = ()

    @property
    def remark(self) -> str | None:
        """How many problems were left out and why, in one line; None if none was."""
        remarks = [*self.notes]
        if self.duplicates:
            noun = "problem is" if self.duplicates == 1 else "problems are"
            why = "a training problem has the same checks or the same prompt"
            remarks.append(f"{self.duplicates} held-out {noun} left out: {why}")
        return "; ".join(remarks) or None

    @property
    def all(self) -> Mapping[str, Problem]:
        return joined(self.train, self.evaluation)

    def content(self) -> Iterator[dict[str, Any]]:
        """All fields of all problems as plain values, in their order, one at a time: what a digest is made of."""
        for name, problems in (("train", self.train), ("evaluation", self.evaluation)):
            yield {name: len(problems)}
            yield from (problem.content for problem in problems.values())


def training_split(source: str) -> str:
    """A set of problems as `load_problems` takes it: its split for training, where it is known to have one."""
    return f"{source}:{TRAIN}" if _has_training_split(source) else source


Load: TypeAlias = Callable[[str], Mapping[str, Problem]]


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """The problems that are trained on.

    Attributes:
        parts: The same by source, with the weights of a mixture.
        notes: What was left out of them, and why.
    """

    problems: Mapping[str, Problem]
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()


def training_set(
    sources: Mapping[str, Mapping[str, Problem]],
    weights: Mapping[str, float],
    *,
    source: str,
    deduplicate: bool = False,
    without: Collection[str] = (),
    profile: Profile | None = None,
    num_problems: int | None = None,
    seed: int | None = None,
) -> TrainingSet:
    """Chooses the problems to train on, of each source and of all together.

    Args:
        sources: The problems of each source.
        source: What the user calls them all.
        without: The names of problems that are not to be among them.
        num_problems: So many at most, in a mixture by weight: any of them by the seed, without one the first.

    Raises:
        InputError: If a name is in two sources, or nothing is left of a source.
    """
    notes: list[str] = []
    found: Mapping[str, Problem] = joined(*sources.values())
    found = select(found, (name for name in found if name not in without)) if without else found
    if deduplicate:
        near = {each.task_id for each in near_duplicates(found)}
        found = select(found, (name for name in found if name not in near))
        if near:
            noun = "problem is a near duplicate" if len(near) == 1 else "problems are near duplicates"
            notes.append(f"{len(near)} training {noun} of earlier ones: left out")
    if profile is not None:
        found = profile.choose(found, source)
        notes += [profile.remark] if profile.remark else []
    parts = _parts(sources, weights, found, notes)
    if num_problems is not None and num_problems < len(found):
        found = select(found, _some(found, parts, num_problems, seed=seed))
        parts = _parts(sources, weights, found, ["num_problems"])
    return TrainingSet(found, parts, tuple(notes))


def check_names(sources: Mapping[str, Mapping[str, Problem]]) -> None:
    """Makes sure that no name is in two sources.

    Raises:
        InputError: If one is.
    """
    owners: dict[str, str] = {}
    for source, problems in sources.items() if len(sources) > 1 else ():
        for name in problems:
            if name in owners:
                message = f"has a problem {name!r}, and so has {owners[name]}"
                hint = "rename one of them: results are stored by name"
                raise InputError(message, path=source, hint=hint, fields=("problems",))
            owners[name] = source


def _parts(
    sources: Mapping[str, Mapping[str, Problem]],
    weights: Mapping[str, float],
    found: Mapping[str, Problem],
    reasons: Sequence[str],
) -> tuple[Part, ...]:
    parts = []
    for source, problems in sources.items():
        names = tuple(name for name in problems if name in found) if len(sources) > 1 else tuple(found)
        if not names:
            why = f" ({'; '.join(reasons)})" if reasons else ""
            message = f"no problem of this source is left to train on{why}"
            raise InputError(message, path=source, hint="leave the source out", fields=("problems",))
        parts.append(Part(names, weights[source], source))
    return tuple(parts)


def load_splits(
    source: str,
    *,
    num_problems: int | None,
    eval_problems: int,
    seed: int,
    eval_set: str | None = None,
    skip_bad_rows: bool = False,
    quality: QualityFilter | None = None,
    profile: Profile | None = None,
    deduplicate: bool = False,
    decontaminate: bool = False,
    **reading: Unpack[Reading],
) -> Splits:
    """Loads the problems of a run.

    `eval_problems` are at most so many, the same for every seed; for 0 none are held out. What `quality` does not
    accept is left out before the set is split, and what other options leave out of the training set
    after that: the evaluation is the same. The source may be a mixture (`sandrl.problems.mixture`).
    """
    notes: dict[str, None] = {}

    def load(part: str) -> Mapping[str, Problem]:
        loaded = load_problems(part, skip_bad_rows=skip_bad_rows, quality=quality, **reading)
        notes.update({loaded.note: None} if loaded.note else {})
        return loaded.problems

    weights = sources_of(source)
    sources, held_out = {}, dict[str, Mapping[str, Problem]]()
    for each in weights:
        sources[each], held_out[each] = _split_of(each, load, is_held_out=eval_set is None and eval_problems > 0)
    check_names({each: joined(sources[each], held_out[each]) for each in weights})
    train = joined(*sources.values())
    others = joined(*held_out.values()) if eval_set is None else load(eval_set)
    distinct = without_duplicates(others, train)
    if eval_set is not None:
        _check_others(train, distinct, eval_set)
    evaluation = _sample(distinct or train, eval_problems, seed=0)
    matches = contaminated(evaluation, train) if distinct and decontaminate else []
    chosen = training_set(
        sources,
        weights,
        source=source,
        deduplicate=deduplicate,
        without={each.other for each in matches},
        profile=profile,
        num_problems=num_problems,
        seed=seed,
    )
    if num_problems is not None and num_problems > len(chosen.problems):
        reason = f" ({'; '.join(chosen.notes)})" if chosen.notes else ""
        raise InputError(
            f"has {len(chosen.problems)} problems to train on, fewer than the {num_problems} that were requested"
            f"{reason}",
            path=source,
        )
    if not decontaminate and distinct:
        matches = contaminated(evaluation, chosen.problems)
    return Splits(
        chosen.problems,
        evaluation,
        is_held_out=bool(distinct),
        duplicates=len(others) - len(distinct),
        quality=quality,
        notes=(*notes, *chosen.notes, *_contamination(matches, len(evaluation), is_left_out=decontaminate)),
        parts=chosen.parts,
        profile=profile,
        matches=tuple(matches),
    )


def _contamination(matches: Sequence[Match], of: int, *, is_left_out: bool) -> list[str]:
    if not matches:
        return []
    names = {each.task_id for each in matches}
    if is_left_out:
        others = len({each.other for each in matches})
        noun = "problem contaminates" if others == 1 else "problems contaminate"
        return [f"{others} training {noun} {len(names)} of {of} evaluation problems: left out"]
    first = matches[0]
    example = f"{first.task_id} has {first.share:.0%} of its words in common with {first.other}"
    return [f"{len(names)} of {of} evaluation problems are contaminated by training problems: {example}"]


def _split_of(source: str, load: Load, *, is_held_out: bool) -> tuple[Mapping[str, Problem], Mapping[str, Problem]]:
    # The training problems of a source, and those that it holds out.
    if _has_training_split(source):
        return load(f"{source}:{TRAIN}"), load(f"{source}:{TEST}") if is_held_out else {}
    problems = load(source)
    return _split(problems) if is_held_out else (problems, {})


def _check_others(train: Mapping[str, Problem], evaluation: Mapping[str, Problem], source: str) -> None:
    if not evaluation:
        message = "all of its problems are also in the training set"
        raise InputError(message, path=source, hint="evaluate on another set", fields=("eval_set",))
    common = next((name for name in evaluation if name in train), None)
    if common is not None:
        message = f"has a problem {common!r} that differs from the training problem of that name"
        raise InputError(message, path=source, hint="rename it: results are stored by name", fields=("eval_set",))


def _has_training_split(source: str) -> bool:
    named = named_set(source)
    return named is not None and {TRAIN, TEST}.issubset(named.splits)


def _split(problems: Mapping[str, Problem]) -> tuple[Mapping[str, Problem], Mapping[str, Problem]]:
    if len(problems) < _FEWEST:
        return problems, {}
    names = sorted(problems, key=lambda name: hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest())
    held_out = set(names[: len(names) // _HELD_OUT])
    return (
        select(problems, (name for name in problems if name not in held_out)),
        select(problems, (name for name in problems if name in held_out)),
    )


def _some(problems: Mapping[str, Problem], parts: Sequence[Part], most: int, *, seed: int | None) -> Iterable[str]:
    if len(parts) > 1:
        return Schedule(parts, seed=seed).take(most)
    return islice(problems, most) if seed is None else _sample(problems, most, seed=seed)


def _sample(problems: Mapping[str, Problem], most: int, *, seed: int) -> Mapping[str, Problem]:
    names: Sequence[str] = list(problems)
    if len(names) > most:
        names = random.Random(seed).sample(names, most)
    return select(problems, names)


_QUOTES = str.maketrans({"‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"'})
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[ \t]*\w*[ \t]*$", re.MULTILINE)
_LINE_MARK = re.compile(r"^[ \t]*(?:#{1,6}|>|[-*+])[ \t]+", re.MULTILINE)
_STRONG = re.compile(r"(?<![\w*])(\*{1,3})(?=\w)([^*\n]*[^\s*])\1(?![\w*])")
# A sign after a word ends a part of a sentence; after a blank it is what the sentence is about.
_AFTER_WORD = re.compile(r"(?<=[\w)\]}'\"])[.,;:?]+(?=\s|$)")
_QUOTED = re.compile(r"""(?<!\w)(?P<quote>['"])(?P<text>[^'"\n]*)(?P=quote)(?!\w)""")


def without_duplicates(candidates: Mapping[str, Problem], of: Mapping[str, Problem]) -> Mapping[str, Problem]:
    prompts: set[bytes] = set()
    checks: set[bytes] = set()
    if candidates:
        for problem in of.values():
            prompts.add(_prompt_digest(problem))
            checks.add(_checks_digest(problem))
        checks.discard(_digest(()))
    names = (
        name
        for name, problem in candidates.items()
        if _prompt_digest(problem) not in prompts and _checks_digest(problem) not in checks
    )
    return select(candidates, names)


def _prompt_digest(problem: Problem) -> bytes:
    machine = () if problem.task is None else (problem.task.environment.image, problem.task.environment.files)
    return _digest([normal_prompt(problem.prompt), *machine])


def _checks_digest(problem: Problem) -> bytes:
    return _digest(sorted(map(repr, normal_checks(problem))))


# Stands for texts: a large set has gigabytes of them.
def _digest(texts: Iterable[str]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        digest.update(repr(text).encode("utf-8", "surrogatepass"))
    return digest.digest()


def normal_prompt(prompt: str) -> str:
    """A prompt without what cannot change its task: equal for prompts that ask for the same."""
    text = prompt if prompt.isascii() else "".join(_plain(character) for character in prompt).translate(_QUOTES)
    text = _LINE_MARK.sub("", _FENCE.sub("", text)).replace("`", "")
    text = _AFTER_WORD.sub("", _STRONG.sub(r"\2", text))
    parts, end = [], 0
    for quoted in _QUOTED.finditer(text):
        # Whichever quotes stand around it, the text between them is the same.
        parts += [text[end : quoted.start()].casefold().split(), [f'"{quoted["text"]}"']]
        end = quoted.end()
    parts.append(text[end:].casefold().split())
    return " ".join(word for part in parts for word in part)


# Unicode's usual form of a character (NFKC); a raised or lowered one keeps its place: 2² is not 22.
def _plain(character: str) -> str:
    usual = unicodedata.normalize("NFKC", character)
    kind = unicodedata.decomposition(character).partition(">")[0]
    return {"<super": "^", "<sub": "_"}.get(kind, "") + usual


def normal_checks(problem: Problem) -> frozenset[object]:
    """The checks of a problem without their order and layout; empty where the exit status is the only check."""
    cases = [(case.stdin.rstrip(), case.stdout.rstrip()) for case in problem.cases]
    calls = [(problem.fn, call.arguments, call.expected) for call in problem.calls]
    task = () if problem.task is None else (problem.task.digest,)
    return frozenset([*map(_normal_test, problem.tests), *cases, *calls, *task])


def _normal_test(test: str) -> str:
    try:
        tree = parse(test.strip())
    except SyntaxError:
        return test.strip()
    for statement in tree.body:
        if isinstance(statement, ast.Assert):
            # What a failure would say checks nothing.
            statement.msg = None
    return ast.dump(tree)
