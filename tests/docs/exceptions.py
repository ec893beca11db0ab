"""Prints the commands of the documentation that no test runs, with the reason: they are parsed instead."""

from __future__ import annotations

from tests.support.pages import NEEDS, calls_of, pages, shell_of


def main() -> None:
    """Prints a line for each command, and their number beside that of all commands."""
    total, listed = 0, 0
    for page in pages():
        for block in page.blocks:
            calls = list(calls_of(shell_of(block)))
            total += len(calls)
            for reason in block.classes & set(NEEDS):
                listed += len(calls)
                for call in calls:
                    print(f"{block.place}: {reason.replace('-', ' ')}: sandrl {' '.join(call)}")
    print(f"{total} commands in the documentation, {total - listed} are run, {listed} are parsed only")


if __name__ == "__main__":
    main()
