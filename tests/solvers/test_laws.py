"""The laws of solvers."""

from __future__ import annotations

import pytest

from laws import SOLVER_LAWS, SOLVERS, SYSTEMS


@pytest.mark.parametrize("law", SOLVER_LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda A: repr(A)[:60])
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_solver(solver, system, law):
    law(solver, system)
