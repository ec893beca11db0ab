"""Models that generate answers, behind an endpoint or in this process, with one protocol for both."""

from sandrl.models.client import OPENAI_BASE_URL, Client, ModelEndpoint, Stopped
from sandrl.models.endpoint import EndpointModel
from sandrl.models.messages import Message, Reply, ToolCall
from sandrl.models.protocol import Answer, Model, Question, Sampling, TokenLimit

__all__ = [
    "OPENAI_BASE_URL",
    "Answer",
    "Client",
    "EndpointModel",
    "Message",
    "Model",
    "ModelEndpoint",
    "Question",
    "Reply",
    "Sampling",
    "Stopped",
    "TokenLimit",
    "ToolCall",
]
