"""Numbers in what a program prints, compared within a tolerance.

The design decision: exact arithmetic on decimal numbers, never floats, so that nothing overflows, nothing is rounded,
and `nan`, `inf`, `0x10` or digits of other scripts are words like any other.
"""

# B905: Python 3.8 has no `strict`. The rest of the style is explained in `descriptors.py`.
# ruff: noqa: B905

# More would take long to compute with; such numbers are compared as words.
MAX_DIGITS = 1000
MAX_EXPONENT = 1000
DIGITS = frozenset("0123456789")


def parse_decimal(word: str) -> "tuple[int, int] | None":
    """A decimal number as (whole number, power of ten), or None if the word is something else."""
    mantissa, mark, exponent = word.replace("E", "e").partition("e")
    whole, _, part = mantissa.lstrip("+-").partition(".")
    power = exponent[1:] if exponent[:1] in ("+", "-") else exponent
    digits = whole + part
    is_decimal = digits and DIGITS.issuperset(digits + power) and len(mantissa) - len(mantissa.lstrip("+-")) < 2
    if not is_decimal or bool(mark) != bool(power) or len(digits) > MAX_DIGITS or len(power) > len(str(MAX_EXPONENT)):
        return None
    shift = int(exponent or "0")
    if abs(shift) > MAX_EXPONENT:
        return None
    return (-int(digits) if mantissa[0] == "-" else int(digits)), shift - len(part)


def is_close(actual: str, expected: str, absolute: float, relative: float) -> bool:
    """Whether two words are the same, or numbers that differ by `absolute` or by `relative` times the expected one."""
    if actual == expected:
        return True
    one, other = parse_decimal(actual), parse_decimal(expected)
    if one is None or other is None:
        return False
    power = min(one[1], other[1], 0)
    wanted: int = other[0] * 10 ** (other[1] - power)
    difference: int = abs(one[0] * 10 ** (one[1] - power) - wanted)
    over, under = absolute.as_integer_ratio()
    scale: int = 10**-power
    if difference * under <= over * scale:
        return True
    over, under = relative.as_integer_ratio()
    return difference * under <= over * abs(wanted)


def same_numbers(actual: str, expected: str, absolute: float, relative: float) -> bool:
    """Compares by lines and words; blanks between words and empty lines at the end of the text do not count."""
    lines, wanted = actual.rstrip().split("\n"), expected.rstrip().split("\n")
    if len(lines) != len(wanted):
        return False
    for line, expected_line in zip(lines, wanted):
        words, expected_words = line.split(), expected_line.split()
        if len(words) != len(expected_words):
            return False
        for word, expected_word in zip(words, expected_words):
            if not is_close(word, expected_word, absolute, relative):
                return False
    return True
