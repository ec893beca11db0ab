"""The protocols in which agents ask: each reads a request, and writes an answer, its stream of events, and an error.

The policy is sampled as the run says: an agent's `temperature`, `max_tokens`, `seed` and others of this kind change
nothing, because a policy is trained at its own settings. A field that would change what an answer *is* (`n`, `stop`, a
schema of the answer, a tool that must be called) is refused, because the policy cannot be held to it.
"""

from sandrl.rollouts.proxy.protocols.anthropic import Anthropic
from sandrl.rollouts.proxy.protocols.chat import Chat
from sandrl.rollouts.proxy.protocols.request import Failure, Protocol, Request, read_json
from sandrl.rollouts.proxy.protocols.responses import Responses

ROUTES: dict[str, tuple[Protocol, str]] = {
    "/chat/completions": (Chat(), "answer"),
    "/responses": (Responses(), "answer"),
    "/messages": (Anthropic(), "answer"),
    "/messages/count_tokens": (Anthropic(), "count_tokens"),
    "/models": (Chat(), "models"),
}
"""The protocol of a path, and what is done there."""

__all__ = ["ROUTES", "Failure", "Protocol", "Request", "read_json"]
