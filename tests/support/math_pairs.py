"""200 answers to mathematical problems with known truth: for each of 100 right answers a right one and a wrong one.

The answers have the forms of GSM8K, MATH, DAPO-Math and the AIME; the texts are written as models write them. Whether a
text is right was decided by reading it, not by a program. `MISJUDGED` is where math-verify says otherwise.
"""

# ruff: noqa: E501 - a line has the two texts of an answer

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """A right answer, a text, and whether the answer in the text is right."""

    source: str
    answer: str
    text: str
    is_right: bool


# Right answer, a right text, a wrong text.
_GSM8K = r"""
18 | She sells 16 - 3 - 4 = 9 eggs, so she makes 9 * 2 = $18. #### 18 | She makes 16 * 2 = $32. #### 32
3 | It takes 2/2=1 bolt of white fiber, so 2+1=3 bolts. \boxed{3} | It takes 2+2 = 4 bolts. \boxed{4}
70000 | The profit is $200,000 - $130,000 = $70,000. #### 70,000 | The profit is 200000-80000=120000. #### 120000
540 | He runs 3*3=9 sprints, 9*60=540 meters.\n#### 540 | He runs 3*60=180 meters.\n#### 180
20 | \boxed{20 \text{ cups}} | \boxed{12 \text{ cups}}
64 | The answer is $\boxed{\$64}$. | The answer is $\boxed{64 \text{ cents}}$.
260 | **Answer:** \boxed{260} | **Answer:** \boxed{26}
160 | So the download takes 160 minutes. | So the download takes 120 minutes.
45 | Final answer: 45 | Final answer: 54
460 | Eliza earns 400 + 60 = 460 dollars. | Eliza earns 450 + 60 = 510 dollars.
366 | The program had 366 downloads in total. #### 366 | The program had 60 + 180 + 60 = 300. #### 300
694 | \[\boxed{694}\] | \[\boxed{649}\]
13 | First I thought \boxed{12}, but I had forgotten one of them. It is \boxed{13}. | It is \boxed{13}, no, on reading again it is \boxed{12}.
1,234 | \boxed{1234} | \boxed{1243}
2125 | The total is $2,125. #### 2125.00 | The total is $2,152. #### 2152.00
5 | \boxed{5} | \boxed{5\%}
-7 | The temperature falls to \boxed{-7} degrees. | The temperature falls to \boxed{7} degrees.
0.75 | \boxed{\frac{3}{4}} | \boxed{\frac{4}{3}}
12.5 | Each pays \boxed{12.50} dollars. | Each pays \boxed{12.05} dollars.
25% | \boxed{25\%} | \boxed{20\%}
104 | 2 hours * 52 = \boxed{104\text{ hours}} | 52 / 2 = \boxed{26\text{ hours}}
1/3 | \boxed{\dfrac13} | \boxed{\dfrac12}
10 | Thus, the number is $\boxed{10}$. | Thus, the number is $\boxed{01}$.
75 | \boxed{75^\circ} | \boxed{105^\circ}
99076.92 | \boxed{99076.92} | \boxed{99,076.29}
"""
_MATH = r"""
\frac{1}{2} | Therefore $x = \boxed{\frac12}$. | Therefore $x = \boxed{-\frac12}$.
2\sqrt{3} | \boxed{\sqrt{12}} | \boxed{\sqrt{6}}
\left( 3, \frac{\pi}{2} \right) | \boxed{\left(3,\frac{\pi}{2}\right)} | \boxed{\left(\frac{\pi}{2}, 3\right)}
p - q | \boxed{p-q} | \boxed{q-p}
\frac{14}{3} | \boxed{4\frac{2}{3}} | \boxed{4\frac{1}{3}}
x^2+2x+1 | \boxed{(x+1)^2} | \boxed{(x-1)^2}
\text{Evelyn} | \boxed{\text{Evelyn}} | \boxed{\text{Carla}}
42 | The sum of the angles is $\boxed{42}$. | The sum of the angles is $\boxed{24}$.
3\sqrt{13} | \boxed{3 \sqrt{13}} | \boxed{13 \sqrt{3}}
(-\infty, 2) \cup (3, \infty) | \boxed{(-\infty,2)\cup(3,\infty)} | \boxed{(-\infty,2]\cup[3,\infty)}
[0, 1) | \boxed{0 \le x < 1} | \boxed{(0,1]}
1, -2 | \boxed{-2, 1} | \boxed{2, -1}
\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} | \boxed{\begin{pmatrix}1&2\\3&4\end{pmatrix}} | \boxed{\begin{pmatrix}1&3\\2&4\end{pmatrix}}
\begin{pmatrix} -2 \\ -14 \\ -7 \end{pmatrix} | \boxed{\begin{pmatrix}-2\\-14\\-7\end{pmatrix}} | \boxed{\begin{pmatrix}2\\14\\7\end{pmatrix}}
y = 2x + 3 | \boxed{y=2x+3} | \boxed{y=3x+2}
11\sqrt2 | \boxed{11\sqrt{2}} | \boxed{2\sqrt{11}}
\pi | \boxed{\pi} | \boxed{3.141593}
\frac{3}{56} | \boxed{3/56} | \boxed{56/3}
6 - 5i | \boxed{6-5i} | \boxed{6+5i}
\text{even} | \boxed{\text{even}} | \boxed{\text{odd}}
90^\circ | \boxed{90} | \boxed{60}
-\frac{1}{4} | \boxed{-0.25} | \boxed{-0.4}
\text{(C)} | \boxed{C} | \boxed{D}
10\% | \boxed{10\%} | \boxed{15\%}
2516_8 | \boxed{2516_8} | In base ten it is \boxed{2516}.
5x^3 - 7x + 4 | \boxed{4 - 7x + 5x^3} | \boxed{5x^3 - 7x - 4}
\frac{\sqrt{2}}{2} | \boxed{\sin 45^\circ} | \boxed{\frac{1}{2}}
e^{2} | \boxed{e^2} | \boxed{2e}
\log_2 3 | \boxed{\log_2(3)} | \boxed{\log_3(2)}
\binom{5}{2} | \boxed{10} | \boxed{20}
8! | \boxed{40320} | \boxed{5040}
x \le 3 | \boxed{x \leq 3} | \boxed{x \geq 3}
(6,31,-1) | \boxed{(6, 31, -1)} | The values are \boxed{-1, 6, 31}.
\{1, 2, 3\} | \boxed{\{3,2,1\}} | \boxed{\{1,2\}}
1.36 | \boxed{1.36} | \boxed{1.63}
"""
_DAPO = r"""
34 | Let me think step by step.\nAnswer: 34 | Let me think step by step.\nAnswer: 43
-21 | Answer: $-21$ | Answer: $21$
113 | The possible values are 56 and 57, which sum to 113.\nAnswer: 113 | The possible values are 56 and 56.\nAnswer: 112
2023 | Answer: \boxed{2023} | Answer: \boxed{2024}
0 | Both sides cancel.\n\nAnswer: 0 | Both sides cancel.\n\nAnswer: 1
1000000 | Answer: 10^6 is one million, $\boxed{10^6}$ | Answer: $\boxed{10^5}$
5049 | <think>It could be 5050.</think>Answer: 5049 | <think>It could be 5049.</think>Answer: 5050
24 | <answer>24</answer> | <answer>42</answer>
7 | n = 7 works and is the least.\nAnswer: $n=7$ | n = 8 works and is the least.\nAnswer: $n=8$
61 | \boxed{61} is prime. | \boxed{51} is prime.
17 | **17** is the only one, so the final answer is $17$. | **19** is the only one, so the final answer is $19$.
12 | Answer: $\boxed{12}$. | Answer: $\boxed{1 \cdot 2}$.
289 | Answer: \(17^2\), which is \(\boxed{17^{2}}\) | Answer: \(\boxed{17 \cdot 2}\)
3 | Answer: \boxed{\frac{9}{3}} | Answer: \boxed{\frac{3}{9}}
256 | Answer: \boxed{2^8} | Answer: \boxed{8^2}
90 | \fbox{90} | \fbox{900}
8 | $\boxed{\boxed{8}}$ | $\boxed{\boxed{9}}$
36 | After simplification we get: $$\boxed{36}$$ | After simplification we get: $$\boxed{63}$$
15 | Answer: \boxed{15} \text{ ways} | Answer: \boxed{16} \text{ ways}
4 | x = 4 or x = -4; only the positive one is asked for. \boxed{4} | x = 4 or x = -4. \boxed{4} or \boxed{-4}
"""
_AIME = r"""
204 | The walk including the coffee takes \boxed{204} minutes. | The walk including the coffee takes \boxed{240} minutes.
025 | \boxed{25} | \boxed{52}
033 | $\boxed{033}$ | $\boxed{330}$
809 | m + n = 800 + 9 = \boxed{809} | m + n = 800 + 9 = \boxed{890}
116 | \boxed{m+n = 116} | \boxed{m+n = 115}
371 | The number of ways is $\boxed{371}.$ | The number of ways is $\boxed{137}.$
113 | Thus \boxed{\textbf{113}} | Thus \boxed{\textbf{131}}
721 | \boxed{\mathbf{721}} | \boxed{\mathbf{720}}
540 | $QR \cdot RS = \boxed{540}$ | $QR \cdot RS = \boxed{504 = 540}$
197 | \boxed{197} | \boxed{1, 197}
480 | \boxed{480} | \boxed{\{479, 480\}}
073 | \boxed{73} | \boxed{37}
468 | \boxed{468} | \boxed{468 \text{ or } 486}
601 | \boxed{601} | I get \boxed{601} or \boxed{610}.
023 | Answer: 023 | Answer: 230
321 | \boxed{\text{three hundred twenty-one}} | \boxed{123}
211 | \boxed{211} | \boxed{x}
315 | \boxed{315} | I cannot solve this problem.
236 | \boxed{236} | \boxed{236 \pm 1}
045 | \boxed{45} | \boxed{9^{9^{9^{9^9}}}}
"""


def _pairs(source: str, table: str) -> list[Pair]:
    found = []
    for line in table.strip().splitlines():
        answer, right, wrong = (part.strip().replace("\\n", "\n") for part in line.split(" | "))
        found += [Pair(source, answer, right, True), Pair(source, answer, wrong, False)]
    return found


PAIRS = tuple(
    pair
    for source, table in (("GSM8K", _GSM8K), ("MATH", _MATH), ("DAPO-Math", _DAPO), ("AIME", _AIME))
    for pair in _pairs(source, table)
)

MISJUDGED = {
    r"The answer is $\boxed{64 \text{ cents}}$.": "it ignores units",
    r"\boxed{5\%}": "it ignores percent signs",
    r"\boxed{0 \le x < 1}": "an inequality is no interval",
    r"\boxed{3.141593}": "six right digits are enough",
    r"In base ten it is \boxed{2516}.": "it ignores the base of a number",
    r"\boxed{\sin 45^\circ}": "it takes degrees within functions for radians",
    r"$QR \cdot RS = \boxed{504 = 540}$": "it takes the last side of a false equation",
    r"\boxed{\text{three hundred twenty-one}}": "it reads no numbers in words",
}
"""The texts that math-verify misjudges, and why; it is right about all others."""
