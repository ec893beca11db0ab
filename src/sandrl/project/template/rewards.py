"""The reward of this project, which `sandrl.toml` names as `rewards:reward`.

It is called once for each completion that could be judged, in the process of sandrl: never run text of a model here.
"""

LONG = 4000
"""From this number of characters on, the code of a completion costs the whole penalty."""

PENALTY = 0.1
"""The most that long code costs."""


def reward(verdict, completion):
    """Returns 0.9 to 1.0 for code that passed every check, less the longer it is, and 0.0 for all other code.

    Code that passes only some of the checks earns nothing, so there is nothing to gain from guessing.
    """
    if not verdict.is_pass:
        return 0.0
    return 1.0 - PENALTY * min(len(completion.code) / LONG, 1.0)
