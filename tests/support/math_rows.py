"""A row of each format of mathematical problems, by the name of its format; the answer of each is 3/4."""

from __future__ import annotations

from typing import Any

MATH_ROWS: dict[str, dict[str, Any]] = {
    "GSM8K": {"question": "What is half of 1.5?", "answer": "Half of 1.5 is 1.5/2=<<1.5/2=0.75>>0.75.\n#### 0.75"},
    "AIME": {"ID": "2024-I-1", "Problem": "What is $6/8$?", "Solution": "It is $3/4$.", "Answer": "3/4"},
    "MATH": {
        "problem": "What is $1 - \\frac{1}{4}$?",
        "level": "Level 1",
        "type": "Algebra",
        "solution": "The difference is $\\boxed{\\frac{3}{4}}$.",
    },
}
