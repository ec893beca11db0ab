"""Modules of the standard library that a worker loads once, for the cells that import them.

A cell must not see a module that it has not imported. The worker takes the modules that it loads out of `sys.modules`
again. A finder gives one to the first `import` in a cell, with the modules that it imports itself, as if it had been
loaded then; each cell has copies of its own, because each has memory of its own. A file of the same name that would be
found before the standard library is imported instead, as usual.

A module is among these if many completions import it, and if it makes no difference when it is loaded: `random` draws
its seed then, and `threading` remembers the thread.
"""

from __future__ import annotations

import posix
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

PRELOADED = (
    *("typing", "collections", "collections.abc", "re", "math", "itertools", "functools", "heapq", "string", "bisect"),
    *("operator", "copy", "os", "abc", "enum", "datetime", "json", "contextlib"),
)


class Preloads:
    """Finds modules that have been loaded, and puts those that each has imported, directly or not, in their place."""

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}
        self.specs: dict[str, Any] = {}
        self.needed: dict[str, set[str]] = {}
        self.path = frozenset(sys.path)

    def load(self) -> None:
        """Loads the modules, and takes them out of sight."""
        builtins: Any = sys.modules["builtins"]
        own = builtins.__import__
        before = set(sys.modules)
        imported: dict[str, set[str]] = {}

        def note(name: str, space: Any = None, *rest: Any) -> Any:
            known = set(sys.modules)
            found = own(name, space, *rest)
            asked_by = (space or {}).get("__name__")
            if type(asked_by) is str:
                imported.setdefault(asked_by, set()).update(set(sys.modules) - known, with_parents(name))
            return found

        builtins.__import__ = note
        try:
            for name in PRELOADED:
                try:
                    note(name, {"__name__": name})
                except Exception:
                    continue  # not in this Python
        finally:
            builtins.__import__ = own
        loaded = set(sys.modules) - before
        self.modules = {name: sys.modules.pop(name) for name in loaded}
        # `typing.io` is a class, and was never imported.
        self.specs = {name: getattr(module, "__spec__", None) for name, module in self.modules.items()}
        for name in loaded:
            needed, more = set(), {name}
            while more:
                needed |= more
                more = {each for known in more for each in imported.get(known, ())} & loaded - needed
            self.needed[name] = needed
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Finds a module for the import system; None leaves it to the others."""
        if self.specs.get(name) is None or (path is None and self.is_shadowed(name)):
            return None
        return type(self.specs[name])(name, self, origin=self.specs[name].origin)

    def is_shadowed(self, name: str) -> bool:
        """Whether a directory that a cell has put before the standard library may have a module of this name."""
        for folder in sys.path:
            if folder in self.path:
                return False
            try:
                if name in [each.partition(".")[0] for each in posix.listdir(folder or ".")]:
                    return True
            except (OSError, TypeError, ValueError):
                continue  # nothing can be found there
        return False

    def create_module(self, spec: Any) -> ModuleType:
        return self.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Ends the import: the module is as it was when it was loaded, and what it imports is there, too."""
        found: Any = module.__spec__
        # Its own specification may have another name: `collections.abc` is `_collections_abc`.
        module.__spec__ = self.specs[found.name]
        for name in self.needed[found.name]:
            sys.modules.setdefault(name, self.modules[name])


def with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]
