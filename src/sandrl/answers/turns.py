"""Finds the answer in what chat templates leave in a text: tokens, turns of a conversation, and reasoning.

The answer is what a model says after its reasoning and before the next turn. A tag or a token in a string of code that
compiles is part of that code.
"""

from __future__ import annotations

import re

from sandrl.answers.markup import END_TOKEN, MAX_BLOCKS, fences, is_mention, is_within, lone_closings, tagged
from sandrl.answers.sources import MAX_LENGTH, Sources, tidy

# A line that is `[DONE]` does nothing as code; prompts of MBPP end answers with it.
_END = re.compile(rf"(?:\s*(?:{END_TOKEN}|^\[DONE\]))+\s*\Z", re.MULTILINE)
_THOUGHT = r"(?:think(?:ing)?|thoughts?|reason(?:ing)?|scratchpad|analysis)"
# As the templates of chat models write it: in tags, in tokens, or in a channel that is not the final one.
_REASONING = re.compile(
    rf"<(?P<slash>/?)(?:\w{{1,20}}[:_]|ant)?{_THOUGHT}(?:[ \t][^<>\n]{{0,200}})?>"
    rf"|<\|(?:(?:begin|start)_(?:of_)?|(?P<word>end_(?:of_)?|/))?{_THOUGHT}\|>"
    r"|\[(?P<square>/?)THINK\]|◁(?P<triangle>/?)think▷|<unused(?:94>(?:thought\b)?|(?P<unused>95>))"
    r"|(?:<\|start\|>assistant)?<\|channel\|>(?:(?P<final>final)|(?:analysis|commentary))\b[^<>\n]{0,80}"
    r"(?:<\|constrain\|>[^<>\n]{0,40})?<\|message\|>"
    r"|<\|channel>(?:thought|analysis)\b|(?P<channel><channel\|>)"
    r"|\A(?:assistant)?analysis(?=[A-Z])|(?P<bare>(?-i:assistantfinal))",
    re.IGNORECASE,
)
_ENDS = ("slash", "word", "square", "triangle", "unused", "final", "channel", "bare")
_HEADER = r"(?:<\|(?:im_start|start|start_header_id|turn)\|?>|<start_of_turn>)[ \t]*"
_TURN = re.compile(
    rf"{_HEADER}(?:user|human|system|developer)\b|[<\[][|｜](?:user|human|system|(?:user|system)_token)[|｜][>\]]"
    r"|(?:\A|</s>)\s*+(?:<s>\s*+)?\[INST\]|(?P<document><(?:\|end_?of_?text\||｜end▁of▁sentence｜)>)",
    re.IGNORECASE,
)
_REPLY_BEGINS = (
    rf"(?:{_HEADER}(?:assistant|model)(?:<\|end_header_id\|>|\b)"
    r"|[<\[][|｜](?:assistant|chatbot_token)[|｜][>\]]|\[/INST\])"
)
_REPLY = re.compile(_REPLY_BEGINS, re.IGNORECASE)
_START = re.compile(rf"\A(?:\s*+(?:{_REPLY_BEGINS}|{END_TOKEN}))++(?:[ \t]*+\n)?", re.IGNORECASE)
_NOTHING = re.compile(rf"(?:\s|{END_TOKEN}|</\w[^<>\n]{{0,80}}>)*+\Z")


def without_end_tokens(text: str) -> str:
    """A text without the end-of-text tokens of chat templates behind it."""
    tail = max(len(text) - 400, 0)
    found = _END.search(text, tail)
    return text if found is None else text[: found.start()]


def without_start_tokens(text: str) -> str:
    """A text without the tokens of chat templates before it."""
    return _START.sub("", text)


def without_reasoning(text: str, sources: Sources) -> str:
    """A text without the reasoning in it; the whole text where there is nothing else.

    Reasoning ends with a closing tag. It begins with the opening tag before it, or with the text, because the chat
    templates of reasoning models open it in the prompt. A tag that opens reasoning and is never closed changes nothing:
    many models forget it, and nothing tells where their answer begins.
    """
    tags = [tag for tag in _REASONING.finditer(text) if not is_mention(text, tag)]
    if not any(map(_is_end, tags)):
        return text
    tags = tags[-4 * MAX_BLOCKS :]
    spans = _code_spans(text, sources, _REASONING)
    kept: list[str] = []
    position, opened, is_closed = 0, None, False
    for tag in tags:
        if is_within(tag, spans):
            continue
        if not _is_end(tag):
            opened = tag.start() if opened is None else opened
            continue
        if opened is not None or is_closed:
            # A second closing tag closes nothing.
            kept.append(text[position : tag.start() if opened is None else opened])
        position, opened, is_closed = tag.end(), None, True
        if tag is not tags[-1] and _begins_with_code(text[position:], sources):
            break
    kept.append(text[position:])
    rest = "\n".join(kept)
    return text if _NOTHING.match(rest) is not None else rest


def first_reply(text: str, sources: Sources) -> str:
    """The first answer in a text that goes on with other turns of a conversation, or with another document.

    A text that begins with another turn has its prompt in it: then it is what follows the last beginning of a reply.
    """
    turns = [turn for turn in _TURN.finditer(text) if not is_mention(text, turn)]
    spans = _code_spans(text, sources, _TURN) if turns else []
    replies = [reply.end() for reply in _REPLY.finditer(text)] if turns else []
    position = 0
    for turn in turns:
        if is_within(turn, spans):
            continue
        if _NOTHING.match(text[position : turn.start()]) is None:
            return text[: turn.start()]
        position = turn.end()
        if turn["document"] is None and replies:
            return text[replies[-1] :]
    return text


def _is_end(tag: re.Match[str]) -> bool:
    return any(tag[name] for name in _ENDS)


def _begins_with_code(text: str, sources: Sources) -> bool:
    if len(text) > MAX_LENGTH:
        return False
    ends = [len(text), *(end for end, _ in lone_closings(text) if text[:end].strip())]
    return any(sources.compiles(tidy(text[:end])) for end in ends)


def _code_spans(text: str, sources: Sources, tag: re.Pattern[str]) -> list[tuple[int, int]]:
    # Where code that compiles has a tag in it: there it is part of a string or a comment.
    blocks = fences(text, sources)
    pieces = [(block.start, block.end, block.code) for block in blocks]
    pieces += [(each.start, each.end, tidy(each.content)) for each in tagged(text, "answer", sources, blocks)]
    pieces = pieces or [(0, len(text), text)]
    pieces += [(0, end, text[:end]) for end, _ in lone_closings(text)]
    return [(start, end) for start, end, code in pieces[-2 * MAX_BLOCKS :] if sources.hides(code, tag)]
