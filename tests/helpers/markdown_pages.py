"""Markdown as two renderers that allow HTML show it: one of CommonMark, and the one that MkDocs uses."""

import importlib.util

import pytest
from markdown_it import MarkdownIt


def _common(text):
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)


def _python(text):
    import markdown

    return markdown.markdown(text, extensions=["tables", "fenced_code", "attr_list"])


_absent = pytest.mark.skipif(importlib.util.find_spec("markdown") is None, reason="markdown is not installed")
RENDERERS = [pytest.param(_common, id="CommonMark"), pytest.param(_python, id="Python-Markdown", marks=_absent)]
