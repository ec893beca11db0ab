"""A program: reads the output of tests on standard input, and writes their statuses by name as JSON.

Arguments: the directory of the package `swebench`, the name of one of its parsers, and the version and the name of the
row, which some parsers ask for. It runs apart (`log_parsers.py`), with limits of time and memory, because the text is
written by strangers.
"""

import importlib
import json
import os
import resource
import sys
import types

_MOST_MEMORY = 4 << 30
_LINE_BY_LINE = ("parse_log_pytest", "parse_log_seaborn", "parse_log_matplotlib")
_FAILED = ("FAILED", "ERROR")


def main() -> None:
    """Runs the parser that the arguments name."""
    directory, name, version, instance = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    # Their own first lines import datasets, docker and modal.
    for package, path in (("swebench", directory), ("swebench.harness", os.path.join(directory, "harness"))):
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [path]
    # A helper beside the parsers reads patches with it.
    sys.modules["unidiff"] = types.ModuleType("unidiff")
    setattr(sys.modules["unidiff"], "PatchSet", None)  # noqa: B010
    parsers = importlib.import_module("swebench.harness.log_parsers").PARSER_REGISTRY
    if name not in parsers:
        sys.exit(f"there is no parser {name!r}")
    row = types.SimpleNamespace(version=version, instance_id=instance)
    text = sys.stdin.buffer.read().decode(errors="replace")
    found = parsers[name](text, row)
    if parsers[name].__name__.startswith(_LINE_BY_LINE):
        # The last line about a test decides; of the lines in reverse order, that is the first one.
        found.update(
            (test, status)
            for test, status in parsers[name]("\n".join(reversed(text.split("\n"))), row).items()
            if status in _FAILED
        )
    sys.stdout.write(json.dumps({str(test): getattr(status, "value", status) for test, status in found.items()}))


if __name__ == "__main__":
    main()
