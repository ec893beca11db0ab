"""A proxy through which agents of any program use a model, and which records the answers for training.

An agent asks in the protocol of its model's vendor (`protocols`). The proxy has the policy answer, and keeps each
answer with its tokens in the chain of messages that it continues (`recording`). Each episode has a conversation of its
own (`server`), with its own token, limits and connections: nothing that an agent sends reaches another episode.
"""

from sandrl.rollouts.proxy.recording import Branch, ProxyLimits, Recording
from sandrl.rollouts.proxy.server import Conversation, ModelProxy

__all__ = ["Branch", "Conversation", "ModelProxy", "ProxyLimits", "Recording"]
