"""Runs a problem's checks in a namespace where proxies replace the completion's functions."""

# The style is explained in `descriptors.py`.
# ruff: noqa: BLE001, SIM105, UP037

import sys

MYPY = False
if MYPY:
    from typing import Any

    from sandrl.rewards.guest.child import Request
    from sandrl.rewards.guest.sides import Sides
    from sandrl.rewards.guest.supervisor import Checked
if "request_size" not in globals():
    # Shipped, the files of this package are one and share a namespace; only their tests import them.
    from sandrl.rewards.guest.calls import CALL, NOT_NONE, Calls
    from sandrl.rewards.guest.child import describe
    from sandrl.rewards.guest.client import CompletionGone, CompletionProcess, Unsplittable, catches_failures
    from sandrl.rewards.guest.clock import Clock, is_running, too_long
    from sandrl.rewards.guest.descriptors import DeadlineReached
    from sandrl.rewards.guest.mirrors import Mirror, is_mirror, number_behind, plain_form, solid_of
    from sandrl.rewards.guest.sides import MARKED, RELEASED, forget_sides, shown, sides_of
    from sandrl.rewards.guest.supervisor import FAILED, NOT_REACHED, NOT_RUN, PASSED, TIMED_OUT
    from sandrl.rewards.guest.values import REBUILT

NOT_IDENTIFIERS = dict.fromkeys(bytes(range(48)) + b":;<=>?@[\\]^`{|}~\x7f", " ")
NOT_NAMES_NOR_CALLS = {**NOT_IDENTIFIERS, 40: "( "}
# What makes code of a text, a file or bytes; where a check does that to an answer, the answer runs in the judge.
CODE_RUNNERS = ("eval", "exec", "__import__", "system", "popen", "spawn")
CODE_LOADERS = frozenset(("pickle", "marshal", "shelve", "importlib", "runpy", "subprocess"))
# A text without these, and without `=` but in a comparison, binds no name.
BINDING = frozenset(("import", "def", "class", "for", "as", "del", "case", "global", "nonlocal", "type", "except"))
# What every check means by these names.
LIBRARY_NAMES = {"np": "numpy", "pd": "pandas"}
STANDARD_CLASSES = {name: module for module, name in REBUILT if module != "builtins"}


def binds(text: str, name: str) -> bool:
    """Whether a text binds a name."""
    compared = text.replace(MARKED, " ").replace(RELEASED, " ").replace("<<=", "=").replace(">>=", "=")
    for operator in ("==", "!=", "<=", ">="):
        compared = compared.replace(operator, " ")
    if "=" not in compared and BINDING.isdisjoint(text.translate(NOT_IDENTIFIERS).split()):
        return False  # `ast` takes longer than all else of a small check
    ast = __import__("ast")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            bound = None if isinstance(node.ctx, ast.Load) else node.id
        elif isinstance(node, ast.alias):
            bound = (node.asname or node.name).partition(".")[0]
        else:
            bound = getattr(node, "name", None)  # functions, classes, handlers and patterns
        if bound == name:
            return True
    return False


def plain_value(value: "Any") -> "tuple[object, str] | None":
    """What a mirror holds here, or how it is shown: nothing is asked of the completion. None if it is no mirror."""
    if not is_mirror(value):
        return None
    if issubclass(type(value), Mirror):
        return None, f"<class {type.__getattribute__(value, '__name__')}>"
    kind = type(value)
    solid = solid_of(kind)
    if solid is not None:
        return plain_form(value, solid), ""
    return None, f"<{type.__getattribute__(kind, '__name__')} object>"


class Checks:
    """Runs a problem's checks against a completion in another process.

    Args:
        completion: The other process.
        problem: `setup`, and `tests` or `calls`; `under_test`, the names that a completion is asked to define;
            `classes`, those of them that are classes, and `comparable`, those whose objects may be compared with plain
            values; where the problem has a reference, `imports`, the import statements of that by the names they bind,
            and `methods`, the special methods of its classes.
        clock: The completion's time; it runs.
        request: `check_timeout_seconds`, how long each check may take, None for no limit; `stops_at_failure`, whether
            nothing is run after a check that fails; of a check that passes, `free_seconds` do not count, up to
            `most_seconds` in all.

    Attributes:
        reached: How the checks went that came to an end.
        is_in_check: Whether a check is running, or was when all of this ended.
        rest: The letter of checks that did not begin.
        sides: What checks that failed got and expected, by their numbers from 0.
    """

    def __init__(self, completion: CompletionProcess, problem: "Request", clock: Clock, request: "Request") -> None:
        self.clock = clock
        self.seconds: "float | None" = request["check_timeout_seconds"]
        self.request = request
        self.rest = NOT_REACHED
        self.completion = completion
        self.tests = problem["tests"]
        self.calls = Calls(problem["calls"]) if "calls" in problem else None
        self.reached: "list[Checked]" = []
        self.sides: "dict[int, Sides]" = {}
        self.is_in_check = False
        self.under_test = frozenset(problem["under_test"])
        self.classes = frozenset(problem["classes"])
        self.comparable = frozenset(problem["comparable"])
        self.setup = problem["setup"]
        self.imports: "dict[str, str] | None" = problem.get("imports")
        methods = problem.get("methods")
        completion.methods = None if methods is None else frozenset(methods)
        completion.on_news = self.rebind
        self.namespace: "dict[str, Any]" = {"__name__": "checks", "__builtins__": sys.modules["builtins"]}
        self.offered: "frozenset[str]" = frozenset()
        self.lent: "set[str]" = set()
        self.values: "dict[str, Any]" = {}
        # Words of functions that setup and earlier checks defined: they may mean the completion's objects, too.
        self.kept_words: "frozenset[str]" = frozenset()

    def lend_names(self, text: str) -> None:
        """Puts the completion's objects that a text may mean into the namespace, fresh as they are now."""
        for name in self.lent:
            self.namespace.pop(name, None)
        builtin = sys.modules["builtins"].__dict__
        words = set(text.translate(NOT_IDENTIFIERS).split())
        wanted = (words | self.kept_words) & self.offered
        self.lent = set()
        self.completion.check = text
        self.completion.has_class = any(self.is_class(name) for name in wanted)
        for name in words & (self.imports or {}).keys() - self.namespace.keys() - self.under_test:
            self.import_name(name)
        for name in wanted:
            if name in self.namespace or (name in builtin and name not in {*self.under_test, "__doc__"}):
                continue
            if self.imports is not None and name not in self.under_test:
                continue  # the problem does not ask for it, so no check can mean it
            kind, value = self.completion.ask("global", None, (name,))
            if kind == "module" and value != name and LIBRARY_NAMES.get(name) != value:
                continue  # under another name a check cannot mean it
            if kind == "module" or self.means_module(name, text):
                # The judge's own, never the completion's.
                try:
                    value = __import__(value if kind == "module" else name)
                except ImportError:
                    continue
            elif is_mirror(value) and name in STANDARD_CLASSES and name not in self.under_test:
                # A check that counts with `Counter` and leaves its import to the completion means that class.
                value = getattr(__import__(STANDARD_CLASSES[name]), name) if self.under_test else value
            if catches_failures(value) and self.completion.catches():
                continue  # `except` with it would catch the failure of the check itself
            if issubclass(type(value), Mirror):
                self.trust_class(name, number_behind(value))
            if is_mirror(value):
                self.completion.origins.lent.add(number_behind(value))
            self.namespace[name] = self.values[name] = value
            self.lent.add(name)
        if "def " in text or "lambda" in text or "class " in text:
            self.kept_words |= words
            self.completion.helpers.append(text)

    def trust_class(self, name: str, number: int) -> None:
        """Takes note of how a check names a class; one that has the name of a function, too, makes no objects."""
        origins = self.completion.origins
        if self.is_class(name):
            origins.named.add(number)
            if name in self.comparable:
                origins.comparable.add(number)
        if name not in self.comparable:
            origins.doubtful.add(number)

    def rebind(self, news: "dict[Any, Any]") -> None:
        """Gives lent names the values that the completion bound to them since."""
        for name, value in news.items():
            is_same = name in self.lent and name in self.values and self.namespace.get(name) is self.values[name]
            if is_same and not binds(self.completion.check, name):
                self.namespace[name] = self.values[name] = value

    def import_name(self, name: str) -> None:
        """Imports what the reference imports under a name: a check that leaves that to the completion means it."""
        try:
            exec((self.imports or {})[name], self.namespace)
        except Exception:
            pass  # not there; the check tells

    def is_class(self, name: str) -> bool:
        """Whether a name is that of a class the problem asks for, in the problem's own words."""
        return name in self.classes

    def means_module(self, name: str, text: str) -> bool:
        """Whether a text means a module of the standard library by a name that the completion gave something else."""
        known = name in getattr(sys, "stdlib_module_names", ()) and name not in self.under_test
        return known and name + "." in text and " " + name + "(" not in " " + text.translate(NOT_NAMES_NOR_CALLS)

    def runs_answers(self, text: str) -> bool:
        """Whether a text may run an answer as code: that must not happen in this process."""
        calls = f" {text.translate(NOT_NAMES_NOR_CALLS)} "
        if any(f" {name}( " in calls for name in CODE_RUNNERS if name not in self.under_test):
            return True
        return not CODE_LOADERS.isdisjoint(text.translate(NOT_IDENTIFIERS).split())

    def run_text(self, text: str) -> None:
        """Runs setup or a check; names it defines itself stay defined."""
        self.lend_names(text)
        lent = {name: self.namespace[name] for name in self.lent}
        exec(text, self.namespace)
        # A name that the text bound anew is the check's own from now on, even if it is the same number.
        self.lent = {
            name
            for name in lent
            if self.namespace.get(name) is self.values[name] and (is_mirror(lent[name]) or not binds(text, name))
        }

    def run(self) -> "tuple[str, str]":
        """Runs everything.

        Returns:
            The status and detail of the first check that did not pass.

        Raises:
            Unsplittable: If a check cannot be judged from another process.
            CompletionGone: If the completion stopped answering.
            DeadlineReached: If all of its time is over.
        """
        for text in (self.setup, *self.tests):
            if self.runs_answers(text):
                raise Unsplittable("a check runs code that it gets as text or bytes")
        names = self.completion.ask("names", None)
        self.offered = frozenset(name for name in names if type(name) is str) if type(names) is list else frozenset()
        if self.calls is not None:
            self.tests = self.calls.texts(self.offered)
            self.namespace[CALL] = self.calls.check
        try:
            self.run_text(self.setup)
        except BaseException as error:
            if self.completion.is_internal(error):
                raise
            if not self.lent and isinstance(error, (ImportError, SyntaxError)):
                # No name of the completion's is in it, and of the files there it can change none of these.
                return "invalid_problem", "the problem's setup fails: " + describe(error)
            return "failed", "the problem's setup fails with this completion: " + describe(error)
        status, detail = "passed", ""
        self.clock.stop()
        limit = self.seconds
        for number, check in enumerate(self.tests, 1):
            if self.calls is not None:
                self.seconds = self.calls.limit(number - 1, limit)
            self.is_in_check = True
            before = self.clock.wall - self.clock.excused
            letter, ended, why = self.run_check(check)
            if letter == PASSED:
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

    def run_check(self, check: str) -> "tuple[str, str, str]":
        """Runs a check.

        Returns:
            How it went: as a letter, as a status, and in words.

        Raises:
            CompletionGone: If the completion stopped answering.
            DeadlineReached: If all of its time is over.
        """
        ended = PASSED, "passed", ""
        failure: "BaseException | None" = None
        try:
            self.clock.start(self.seconds)
            try:
                self.run_text(check)
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

    def sides_of(self, failure: BaseException) -> "Sides":
        """What a check got and expected that ended with an exception; asks nothing of the completion."""
        if self.calls is None:
            return sides_of(failure, self.namespace, plain_value)
        wrong, self.calls.wrong = self.calls.wrong, None
        if wrong is None:
            return None, None, 0
        is_value = self.calls.comparison != NOT_NONE
        return shown(wrong[0], plain_value), shown(wrong[1]) if is_value else None, 0
