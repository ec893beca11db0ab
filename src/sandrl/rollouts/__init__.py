"""Policies at work on problems: what is asked, and who answers."""

from sandrl.rollouts.endpoint import EndpointPolicy
from sandrl.rollouts.policy import Policy, Question, Sampling

__all__ = ["EndpointPolicy", "Policy", "Question", "Sampling"]
