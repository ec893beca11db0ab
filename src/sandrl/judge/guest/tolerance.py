"""Compares numbers in the output of a program within a tolerance.

It uses exact arithmetic on decimal numbers, never floats, so that nothing overflows, nothing is rounded, and `nan`,
`inf`, `0x10` or digits of other scripts are text like any other. A word may have text around its numbers: `[1.5,`,
`x=1.5`, `(1+2j)`, `5%`. That text must be equal.
"""

from __future__ import annotations

# More would take long to compute with; such numbers are compared as words.
MAX_DIGITS = 1000
MAX_EXPONENT = 1000
# Characters of the longest number that is looked for inside a word; a number that fills a word may be longer.
MAX_LENGTH = 2500
DIGITS = frozenset("0123456789")


def parse_decimal(word: str) -> tuple[int, int] | None:
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


def number_end(word: str, start: int) -> int:
    """Where the decimal number that begins at `start` ends; `start` if no number begins there."""
    position = start + (word[start : start + 1] in ("+", "-"))
    first, dots, digits = position, 0, 0
    while position - first < MAX_LENGTH and (character := word[position : position + 1]):
        if character in DIGITS:
            digits += 1
        elif character == "." and not dots:
            dots = 1
        else:
            break
        position += 1
    if not digits:
        return start
    if word[position : position + 1] in ("e", "E"):
        power = position + 1 + (word[position + 1 : position + 2] in ("+", "-"))
        end = power
        while end - power < MAX_LENGTH and word[end : end + 1] in DIGITS:
            end += 1
        return end if end > power else position
    return position


def pieces(word: str) -> list[tuple[str, str]]:
    """Splits a word into pairs of a text and the number after it, which is empty in the last pair.

    A number does not follow a letter, a digit, a dot or `_`, and nothing but letters may follow it directly: `2.5kg`
    has a number, while `x1`, `0x10`, `1_000` and `1.2.3` have none.
    """
    found = []
    text_start = position = 0
    while position < len(word):
        end = number_end(word, position)
        if end == position:
            position += 1
            while position < len(word) and is_inside(word[position - 1]) and is_inside(word[position]):
                position += 1
            continue
        rest = end
        while rest < len(word) and is_inside(word[rest]):
            rest += 1
        if word[end:rest].isalpha() or end == rest:
            found.append((word[text_start:position], word[position:end]))
            text_start = end
        position = rest
    return [*found, (word[text_start:], "")]


def is_inside(character: str) -> bool:
    """Whether a number that follows this character, or is followed by it, may be a part of a name."""
    return character.isalnum() or character in "._"


def same_word(actual: str, expected: str, absolute: float, relative: float) -> bool:
    """Whether two words are the same, or the numbers in them are close and the text around these is equal."""
    if is_close(actual, expected, absolute, relative):
        return True
    position = 0
    for text, number in pieces(expected):
        if not actual.startswith(text, position):
            return False
        position += len(text)
        end = number_end(actual, position) if number else position
        if number and not is_close(actual[position:end], number, absolute, relative):
            return False
        position = end
    return position == len(actual)


def lines_of(text: str) -> list[str]:
    """The lines of a text without the empty ones at its beginning and its end."""
    begin = len(text) - len(text.lstrip())
    return text[text.rfind("\n", 0, begin) + 1 :].rstrip().split("\n")


def same_lines(actual: str, expected: str) -> bool:
    """Compares by lines; blanks at the end of a line and empty lines around the text do not count."""
    return [line.rstrip() for line in lines_of(actual)] == [line.rstrip() for line in lines_of(expected)]


def same_numbers(actual: str, expected: str, absolute: float, relative: float, by_words: bool = False) -> bool:
    """Compares by lines and words; blanks between words and empty lines around the text do not count.

    By words, the ends of lines do not count either, and where numbers may not differ, words are compared as text.
    """
    if by_words and not (absolute or relative):
        return actual.split() == expected.split()
    lines, wanted = ([actual], [expected]) if by_words else (lines_of(actual), lines_of(expected))
    if len(lines) != len(wanted):
        return False
    for line, expected_line in zip(lines, wanted):
        words, expected_words = line.split(), expected_line.split()
        if len(words) != len(expected_words):
            return False
        for word, expected_word in zip(words, expected_words):
            if not same_word(word, expected_word, absolute, relative):
                return False
    return True
