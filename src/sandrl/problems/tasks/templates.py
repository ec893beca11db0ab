"""Variables of tasks, whose values may be templates: `${NAME}` or `${NAME:-default}`.

A template stands for a variable of this machine, which a task gets only if the user has permitted it by name. As in
Harbor, a value is a template as a whole, or no template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sandrl.errors import InputError

_TEMPLATE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}")


def resolved(variables: Iterable[tuple[str, str]], passed: Mapping[str, str]) -> dict[str, str]:
    """The values of variables.

    Args:
        passed: The variables of this machine that are permitted, by name.

    Raises:
        InputError: If a template without a default names a variable that is not permitted, or not set.
    """
    found: dict[str, str] = {}
    for name, value in variables:
        template = _TEMPLATE.fullmatch(value)
        if template is None:
            found[name] = value
            continue
        source, default = template.groups()
        known = passed.get(source, default)
        if known is None:
            # All in the message: the detail of a verdict has no hint.
            raise InputError(
                f"the variable {name} of the task needs {source}: set it, and permit it with `pass_env`",
                fields=("pass_env",),
            )
        found[name] = known
    return found
