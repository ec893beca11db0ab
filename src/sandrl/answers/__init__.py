"""From the text of a model's answer to code: extraction, starters, and what a language or a problem joins to it."""
