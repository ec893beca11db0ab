"""Formats conversations for the tiny policy and parses its answers.

The format is a short ChatML, because every token of a prompt costs time in every step. Tools are listed by name and
parameters only. A tool call has the format of Qwen 3.5, which contains code without escapes, so that a model of this
size does not have to learn JSON escaping.
"""

from __future__ import annotations

from typing import Any

START, END, PADDING = "<|im_start|>", "<|im_end|>", "<|endoftext|>"

SPECIAL_TOKENS = {"eos_token": END, "pad_token": PADDING}
"""What the tokenizer gives to a chat template."""

CHAT_TEMPLATE = """\
{%- macro text_of(content) -%}
    {%- if content is string -%}
        {{- content -}}
    {%- elif content -%}
        {%- for part in content -%}{{- part.text -}}{%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- macro listed(tools) -%}
    {%- for tool in tools -%}
        {%- set function = tool.function if tool.function is defined else tool -%}
        {{- '\\n' ~ function.name ~ '(' ~ (function.parameters.properties | list | join(', ')) ~ ')' -}}
    {%- endfor -%}
{%- endmacro -%}
{%- if tools and (not messages or messages[0].role != 'system') -%}
    {{- '<|im_start|>system\\nTools:' ~ listed(tools) ~ '<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
    {{- '<|im_start|>' ~ message.role ~ '\\n' ~ text_of(message.content) -}}
    {%- if loop.first and tools and message.role == 'system' -%}
        {{- '\\nTools:' ~ listed(tools) -}}
    {%- endif -%}
    {%- for call in message.tool_calls or [] -%}
        {%- set function = call.function if call.function is defined else call -%}
        {{- '<tool_call>\\n<function=' ~ function.name ~ '>\\n' -}}
        {%- for name, value in (function.arguments or {}) | items -%}
            {%- set value = value.strip('\\n') if value is string else value | tojson -%}
            {{- '<parameter=' ~ name ~ '>\\n' ~ value ~ '\\n</parameter>\\n' -}}
        {%- endfor -%}
        {{- '</function>\\n</tool_call>' -}}
    {%- endfor -%}
    {{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""
"""Renders messages, tool calls and tools (Jinja); earlier turns are written the same whatever follows them."""

RESPONSE_TEMPLATE: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {
            "open_pattern": r"<tool_call>\s*<function=(?P<name>[^\n>]+)>",
            "close_pattern": r"</tool_call>\s*",
            "repeats": True,
            "content": "xml-inline",
            "content_args": {
                "tag_pattern": r"<parameter=(?P<key>[^>\n]+)>\s*(?P<value>.*?)\s*</parameter>",
                "value_parser": {"name": "text"},
            },
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"close_pattern": r"<\|im_end\|>\s*", "content": "text"},
    },
}
"""Reads an answer back into a message with its tool calls (`parse_response` of transformers from 5.15 on)."""
