"""The laws of operators."""

from __future__ import annotations

import pytest

from laws import OPERATOR_LAWS, OPERATORS


def label(item: object) -> str:
    text = repr(item)
    return text if len(text) <= 60 else f"{text[:57]}..."


@pytest.mark.parametrize("law", OPERATOR_LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("operator", OPERATORS, ids=label)
def test_operator(operator, law):
    law(operator)
