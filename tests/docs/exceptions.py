"""Prints the commands of the documentation that no test runs, with the reason: they are parsed instead."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.pages import NEEDS, Block, pages, shell_of


def commands_of(block: Block) -> list[str]:
    """The lines of a block that are commands, each with the lines that continue it."""
    lines = shell_of(block).replace("\\\n", " ").splitlines()
    return [" ".join(line.split()) for line in lines if line.strip() and not line.startswith("#")]


def exceptions() -> Iterator[tuple[Block, str]]:
    """The blocks that are not run, with the reasons."""
    for page in pages():
        for block in page.blocks:
            if shell_of(block):
                reasons = [each.replace("-", " ") for each in sorted(block.classes & set(NEEDS))]
                if "installs" in block.classes and (page.name == "CONTRIBUTING.md" or block.text == "make test\n"):
                    reasons.append("runs the tests themselves")
                if reasons:
                    yield block, ", ".join(reasons)


def main() -> None:
    """Prints a line for each command, and their number beside that of all commands."""
    total = sum(len(commands_of(block)) for page in pages() for block in page.blocks)
    listed = 0
    for block, reason in exceptions():
        for command in commands_of(block):
            listed += 1
            print(f"{block.place}: {reason}: {command}")
    print(f"{total} lines of commands in the documentation, {total - listed} are run, {listed} are parsed only")


if __name__ == "__main__":
    main()
