"""Models that work on problems over several turns: their prompts, their tools, and the records of their episodes."""
