"""Runs a problem's checks against a completion in another process, and produces the verdict.

Checks run in a namespace where proxies (`proxies.py`) replace the completion's functions, classes and objects. How far
an object of the completion is trusted is decided in `client.py`.
"""

from __future__ import annotations

import sys
from typing import Any

from sandrl.judge.guest.calls import CALL, NOT_NONE, Calls
from sandrl.judge.guest.channel import DONE, Channel
from sandrl.judge.guest.child import describe
from sandrl.judge.guest.client import CompletionGone, CompletionProcess, Unsplittable
from sandrl.judge.guest.clock import Clock, is_running, too_long
from sandrl.judge.guest.containers import plain_form
from sandrl.judge.guest.declarations import Checked, Request, Sides
from sandrl.judge.guest.descriptors import DeadlineReached
from sandrl.judge.guest.proxies import ProxyClass, is_proxy, number_behind, solid_of
from sandrl.judge.guest.sides import CAUGHT, FAILS, RAISED, forget_sides, shown, sides_of
from sandrl.judge.guest.supervisor import (
    FAILED,
    NOT_REACHED,
    NOT_RUN,
    PASSED,
    TIMED_OUT,
    Child,
    Ends,
    Judgment,
    filled,
    judge_child,
    letter_of,
    uncounted,
)
from sandrl.judge.guest.values import REBUILT
from sandrl.judge.guest.world import COMPLETION

MOST_KEPT_TEXTS = 1000
# What every check means by these names.
LIBRARY_NAMES = {"np": "numpy", "pd": "pandas"}
STANDARD_CLASSES = {name: module for module, name in REBUILT if module != "builtins"}


def plain_value(value: Any) -> tuple[object, str] | None:
    """What a proxy holds here, or how it is shown: nothing is asked of the completion. None if it is no proxy."""
    if not is_proxy(value):
        return None
    if issubclass(type(value), ProxyClass):
        return None, f"<class {type.__getattribute__(value, '__name__')}>"
    kind = type(value)
    solid = solid_of(kind)
    if solid is not None:
        return plain_form(value, solid), ""
    return None, f"<{type.__getattribute__(kind, '__name__')} object>"


def stand_for_completion(completion: CompletionProcess) -> None:
    """Puts a module in place that checks find under the names of the completion's, to patch what is in that."""

    def find(name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        kind, value = completion.ask("global", None, (name,))
        return __import__(value, fromlist=("",)) if kind == "module" else value

    module = type(sys)(COMPLETION)
    module.__dict__["__getattr__"] = find
    for name in (COMPLETION, "solution", "checks"):
        sys.modules[name] = module


class Checks:
    """Runs a problem's checks against a completion in another process.

    `problem` has `setup`, and `tests` or `calls`; `under_test`, the names that a completion is asked to define;
    `facts`, what the source of setup and tests says (`CheckFacts`); `world`, what checks change of the world around
    them. Where the problem has a reference, it has `imports`, the import statements of that by the names they bind,
    `methods`, the special methods of its classes, and `reference`, that itself, if its classes have operators of their
    own.

    `request` has `check_timeout_seconds`, None for no limit; `stops_at_failure`, whether nothing is run after a check
    that fails; of a check that passes, `free_seconds` do not count, up to `most_seconds` in all.

    Attributes:
        compiled_texts: Texts that are compiled, where this process judges several completions.
        is_in_check: Whether a check is running, or was when all of this ended.
        rest: The letter of checks that did not begin.
        rests: Whether a check that has passed rests on the word of an operator of the completion's alone.
    """

    compiled_texts: dict[str, Any] | None = None

    def __init__(self, completion: CompletionProcess, problem: Request, clock: Clock, request: Request) -> None:
        self.clock = clock
        self.seconds: float | None = request["check_timeout_seconds"]
        self.request = request
        self.rest = NOT_REACHED
        self.completion = completion
        self.tests = problem["tests"]
        self.calls = Calls(problem["calls"]) if "calls" in problem else None
        self.reached: list[Checked] = []
        self.sides: dict[int, Sides] = {}
        self.is_in_check = False
        self.rests = False
        self.under_test = frozenset(problem["under_test"])
        facts = problem["facts"]
        self.facts: list[Any] = facts["texts"]
        self.runs_answers: bool = facts["runs_answers"]
        self.classes = frozenset(facts["classes"])
        self.comparable = frozenset(facts["comparable"])
        self.setup = problem["setup"]
        self.imports: dict[str, str] | None = problem.get("imports")
        # What checks change of the world around them, as far as it is carried to the completion.
        self.world: tuple[tuple[str, ...], tuple[str, ...]] = problem.get("world", ((), ()))
        completion.mentions = None if facts["mentions"] is None else frozenset(facts["mentions"])
        methods = problem.get("methods")
        completion.methods = None if methods is None else frozenset(methods)
        completion.on_news = self.rebind
        completion.witness.reference = problem.get("reference") or ""
        self.namespace: dict[str, Any] = {"__name__": "checks", "__builtins__": sys.modules["builtins"]}
        failures = completion.failures
        self.namespace.update({FAILS: failures.assert_fails, RAISED: failures.raised, CAUGHT: failures.caught})
        self.lent: set[str] = set()
        self.values: dict[str, Any] = {}
        # What functions mean that setup and earlier checks defined: that may be the completion's objects, too.
        self.kept: set[str] = set()

    def lend_names(self, facts: dict[str, Any]) -> None:
        """Puts the completion's objects that a text may mean into the namespace, fresh as they are now."""
        for name in self.lent:
            self.namespace.pop(name, None)
        builtin = sys.modules["builtins"].__dict__
        means = set(facts["means"])
        wanted = (means | self.kept) & self.completion.offered
        self.lent = set()
        self.completion.begin(facts, means | self.kept)
        self.completion.has_class = any(self.is_class(name) for name in wanted)
        for name in means & (self.imports or {}).keys() - self.namespace.keys() - self.under_test:
            self.import_name(name)
        for name in wanted:
            if name in self.namespace or (name in builtin and name not in {*self.under_test, "__doc__"}):
                continue
            if self.imports is not None and name not in self.under_test:
                continue  # the problem does not ask for it, so no check can mean it
            kind, value = self.completion.ask("global", None, (name,))
            if kind == "module" and value != name and LIBRARY_NAMES.get(name) != value:
                continue  # under another name a check cannot mean it
            if kind == "module" or (name in facts["modules"] and self.is_module(name)):
                # The judge's own, never the completion's.
                try:
                    value = __import__(value if kind == "module" else name)
                except ImportError:
                    continue
            elif is_proxy(value) and name in STANDARD_CLASSES and name not in self.under_test:
                # A check that counts with `Counter` and leaves its import to the completion means that class.
                value = getattr(__import__(STANDARD_CLASSES[name]), name) if self.under_test else value
            if issubclass(type(value), ProxyClass):
                self.trust_class(name, number_behind(value))
            if is_proxy(value):
                self.completion.provenance.lent.add(number_behind(value))
            self.namespace[name] = self.values[name] = value
            self.lent.add(name)
        self.kept.update(facts["kept"])

    def trust_class(self, name: str, number: int) -> None:
        """Takes note of how a check names a class; one that has the name of a function, too, makes no objects."""
        provenance = self.completion.provenance
        if self.is_class(name):
            provenance.named.add(number)
            if name in self.comparable:
                provenance.comparable.add(number)
        if name not in self.comparable:
            provenance.doubtful.add(number)

    def rebind(self, news: dict[Any, Any]) -> None:
        """Gives lent names the values that the completion bound to them since."""
        for name, value in news.items():
            is_same = name in self.lent and name in self.values and self.namespace.get(name) is self.values[name]
            if is_same and name not in self.completion.facts["binds"]:
                self.namespace[name] = self.values[name] = value

    def import_name(self, name: str) -> None:
        """Imports what the reference imports under a name: a check that leaves that to the completion means it."""
        try:
            exec((self.imports or {})[name], self.namespace)
        except Exception:
            pass  # not there; the check tells

    def is_class(self, name: str) -> bool:
        return name in self.classes

    def is_module(self, name: str) -> bool:
        return name in getattr(sys, "stdlib_module_names", ()) and name not in self.under_test

    @staticmethod
    def compiled(text: str) -> Any:
        """A text, or what it was compiled to for a completion before this one; compiling it takes longer than most."""
        if Checks.compiled_texts is None:
            return text
        if text not in Checks.compiled_texts:
            if len(Checks.compiled_texts) >= MOST_KEPT_TEXTS:
                Checks.compiled_texts.clear()
            Checks.compiled_texts[text] = compile(text, "<string>", "exec")
        return Checks.compiled_texts[text]

    def run_text(self, text: str, facts: dict[str, Any]) -> None:
        """Runs setup or a check; names it defines itself stay defined. A failed assert that was caught fails."""
        self.lend_names(facts)
        lent = {name: self.namespace[name] for name in self.lent}
        exec(self.compiled(text), self.namespace)
        self.completion.failures.settle()
        # A name that the text bound anew is the check's own from now on, even if it is the same number.
        self.lent = {
            name
            for name in lent
            if self.namespace.get(name) is self.values[name] and (is_proxy(lent[name]) or name not in facts["binds"])
        }

    def run(self) -> tuple[str, str]:
        """Runs everything; returns the status and detail of the first check that did not pass.

        Raises:
            Unsplittable: If a check cannot be judged from another process.
            CompletionGone: If the completion stopped answering.
            DeadlineReached: If all of its time is over.
        """
        if self.runs_answers:
            raise Unsplittable("a check runs code that is given as text or bytes")
        if self.calls is not None:
            self.tests = self.calls.texts(self.completion.offered)
            self.facts = self.facts[:1] * (len(self.tests) + 1)
            self.namespace[CALL] = self.calls.check
        kinds, places = self.world
        self.completion.world.watch(kinds, places)
        if "mock" in kinds:
            stand_for_completion(self.completion)
        try:
            self.run_text(self.setup, self.facts[0])
        except BaseException as error:
            if self.completion.is_internal(error):
                raise
            if not self.lent and isinstance(error, (ImportError, SyntaxError)):
                # No name of the completion's is in it, and of the files there it can change none of these.
                return "invalid_problem", "the problem's setup fails: " + describe(error)
            return "failed", "the problem's setup fails with this completion: " + describe(error)
        self.completion.world.watch_generators(kinds)
        status, detail = "passed", ""
        self.clock.stop()
        limit = self.seconds
        for number, check in enumerate(self.tests, 1):
            if self.calls is not None:
                self.seconds = self.calls.limit(number - 1, limit)
            self.is_in_check = True
            before = self.clock.wall - self.clock.excused
            letter, ended, why = self.run_check(check, self.facts[number])
            if letter == PASSED:
                self.rests = self.rests or self.completion.witness.rests
                took = self.clock.wall - self.clock.excused - before
                self.clock.give(min(took, self.request["free_seconds"]), self.request["most_seconds"])
            self.reached.append((letter, why))
            self.is_in_check = False
            if letter != PASSED and status == "passed":
                status, detail = ended, f"check {number} of {len(self.tests)}: {why}"
            if letter == TIMED_OUT:
                self.completion.let_go(self.clock)
                if self.completion.gone:
                    break
            if letter != PASSED and self.request["stops_at_failure"]:
                self.rest = NOT_RUN
                break
        return status, detail

    def run_check(self, check: str, facts: dict[str, Any]) -> tuple[str, str, str]:
        """Runs a check; returns how it went as a letter, as a status, and in words. Raises what `run` does."""
        ended = PASSED, "passed", ""
        failure: BaseException | None = None
        try:
            self.clock.start(self.seconds)
            try:
                self.run_text(check, facts)
            except BaseException as error:
                if self.completion.is_internal(error):
                    raise
                blamed = self.completion.blamed.get(id(error), (None, "failed", ""))
                status = "resource_limit" if isinstance(error, MemoryError) else blamed[1]
                # On the clock: an object of the completion's in the message is asked for its text.
                ended = FAILED, status, blamed[2] or describe(error)
                failure = error
            # A check that catches everything catches the end of the completion or of its time, too.
            if self.completion.gone:
                raise CompletionGone
            if not is_running():
                raise DeadlineReached
            self.clock.stop()
            if failure is not None:
                self.sides[len(self.reached)] = self.sides_of(failure)
        except DeadlineReached:
            self.clock.stop()
            if self.seconds is None or self.clock.left <= 0:
                raise
            ended = TIMED_OUT, "timeout", too_long(self.seconds)
        forget_sides(check, self.namespace)
        return ended

    def sides_of(self, failure: BaseException) -> Sides:
        if self.calls is None:
            return sides_of(failure, self.namespace, plain_value)
        wrong, self.calls.wrong = self.calls.wrong, None
        if wrong is None:
            return None, None, 0
        is_value = self.calls.comparison != NOT_NONE
        return shown(wrong[0], plain_value), shown(wrong[1]) if is_value else None, 0


FLUSH_SECONDS = 0.5


def watch_for_end(completion: CompletionProcess) -> None:
    """From here on the end of the completion's process raises `CompletionGone`.

    Processes it forked may hold the channel open after it, so the end of the channel is not enough of a sign.
    """

    def on_end() -> None:
        if not completion.gone:
            completion.gone = True
            raise CompletionGone

    Ends.on_end = on_end
    Ends.look()


def judge_apart(child: Child, channel: Channel, request: Request, hidden: Request) -> Judgment:
    """Judges a completion that runs in a child; `request` is known there, too, and `hidden` here alone."""
    seconds = request["timeout_seconds"]
    completion = CompletionProcess(channel, child.signal)
    clock = Clock(seconds, child.pid)
    checks = Checks(completion, hidden, clock, request)
    status, detail, gone, is_whole = "passed", "", False, False
    try:
        clock.start()
        try:
            try:
                watch_for_end(completion)
                completion.wait_until_ready()
                status, detail = checks.run()
                is_whole = True
            finally:
                # Its end is known by now, or no news any more; what follows is not to be torn open by it.
                Ends.on_end = None
        except CompletionGone:
            completion.gone, gone, is_whole = True, True, False
        except Unsplittable as error:
            status, detail = "not_isolated", str(error)
        clock.stop()
    except DeadlineReached:
        completion.gone = True
        clock.stop()
        clock.left = 0.0
        status, detail = "timeout", too_long(clock.limits[0].seconds)
    if not completion.gone:
        # The end of the completion's work; the end of the channel is not enough where others hold it open, too.
        try:
            channel.send(DONE, b"")
        except OSError:
            pass  # it has ended
    channel.close()
    # It has a moment to flush what it printed.
    ended = child.end(min(clock.left, FLUSH_SECONDS), clock)
    if gone:
        status, detail = judge_child(ended, seconds)
        if status in ("passed", "timeout", "invalid_problem", "not_isolated"):
            status, detail = "crashed", "it stopped answering before its checks were done"
    elif ended.excess and status in ("passed", "failed", "crashed"):
        status, detail, is_whole = "resource_limit", ended.excess, False
    reached = checks.reached
    if not is_whole:
        reached = uncounted(reached) + [(letter_of(status), detail)] * checks.is_in_check
    returned = checks.calls.returned() if checks.calls is not None else None
    outcome = filled(reached, len(checks.tests), checks.rest)
    judged = Judgment(status, detail, outcome, ended.times, ended.stdout, ended.stderr, returned)
    judged.rests = checks.rests and is_whole
    judged.excerpts = {number: (*sides, (0, 0)) for number, sides in checks.sides.items()}
    return judged
