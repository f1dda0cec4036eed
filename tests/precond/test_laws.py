"""The laws of preconditioners."""

from __future__ import annotations

import pytest

from laws import FAMILY_LAWS, PRECONDITIONED, PRECONDITIONER_LAWS, PRECONDITIONERS
from laws.preconditioners import label, refused

CASES = [
    pytest.param(item, A, id=f"{label(item)}, {name}")
    for item in PRECONDITIONERS
    for name, A in PRECONDITIONED.items()
    if not refused(item, A)
]


@pytest.mark.parametrize("law", PRECONDITIONER_LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize(("item", "operator"), CASES)
def test_preconditioner(item, operator, law):
    law(item, operator)


@pytest.mark.parametrize("law", FAMILY_LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("item", PRECONDITIONERS, ids=label)
def test_family(item, law):
    law(item)
