"""Models at work on problems, over several turns: what is asked, what they may do, and what is kept of it."""
