"""All numbers of the recipe that creates the tiny policy.

The recipe is data, and its digest is the name of the policy in the cache. After a change of any number, the cache
returns no policy of an older recipe.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sandrl.digests import digest_of
from sandrl.problems.prompts import ANSWER_INSTRUCTION, SUBMIT_INSTRUCTION
from sandrl.problems.tiny import tasks
from sandrl.tiny.chat import CHAT_TEMPLATE, RESPONSE_TEMPLATE
from sandrl.tiny.demonstrations import TOOLS

_FORMAT = 3


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a tiny policy is made.

    The warm start has two stages: right answers until the policy gives them, then answers of noisy labels, who is
    right on each kind of task with one of two chances and else makes that kind's one mistake. What remains is a policy
    that writes good Python and is right somewhat less than every second time: the state in which rewards teach most.

    Attributes:
        seed: Decides the weights and the order of everything.
        vocabulary: Tokens.
        hidden: Width of the model.
        intermediate: Width of its feed-forward layers.
        layers: How many layers.
        heads: Attention heads.
        key_value_heads: Heads of keys and values.
        positions: The longest conversation, in tokens.
        spread: Standard deviation of the first weights; three times the usual, for a model this narrow.
        batch: Conversations in a step of the warm start.
        tool_share: Share of conversations that answer through the tool.
        clean_rate: Learning rate of the first stage.
        clean_enough: Share of right answers, sampled, that ends it.
        clean_steps: It takes at most so many steps.
        check_every: Steps between two looks at that share.
        checked: Problems it is measured on.
        muddled_rate: Learning rate at the beginning of the second stage; it falls to nothing at its end.
        muddled_steps: How many steps it takes.
        teacher: The two chances with which the teacher is right, by kind in turn.
    """

    seed: int = 0
    vocabulary: int = 467
    hidden: int = 128
    intermediate: int = 256
    layers: int = 2
    heads: int = 4
    key_value_heads: int = 2
    positions: int = 1024
    spread: float = 0.06
    batch: int = 32
    tool_share: float = 0.25
    clean_rate: float = 2e-3
    clean_enough: float = 0.85
    clean_steps: int = 300
    check_every: int = 25
    checked: int = 128
    muddled_rate: float = 1e-3
    muddled_steps: int = 80
    teacher: tuple[float, float] = (0.4, 0.6)

    @property
    def digest(self) -> str:
        """Names what the recipe makes: 16 hexadecimal digits."""
        texts = [CHAT_TEMPLATE, RESPONSE_TEMPLATE, ANSWER_INSTRUCTION, SUBMIT_INSTRUCTION]
        problems = [(task.right, task.wrong, task.to_problem().prompt) for task in tasks("train")]
        return digest_of([[_FORMAT, asdict(self), texts, problems, TOOLS]]).hex()[:16]
