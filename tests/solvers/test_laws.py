"""The laws of solvers."""

from __future__ import annotations

import pytest

from laws import HARD_SYSTEMS, SOLVER_LAWS, SOLVERS, SYSTEMS, TROUBLE_LAWS, honest_at_the_limit

every_solver = pytest.mark.parametrize("solver", SOLVERS, ids=repr)
# A warning from NumPy would be a number that is not finite where nobody looked for one.
pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


@pytest.mark.parametrize("law", SOLVER_LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda A: repr(A)[:60])
@every_solver
def test_solver(solver, system, law):
    law(solver, system)


@pytest.mark.parametrize("system", HARD_SYSTEMS, ids=lambda A: repr(A)[:60])
@every_solver
def test_solver_at_the_limit(solver, system):
    honest_at_the_limit(solver, system)


@pytest.mark.parametrize("law", TROUBLE_LAWS, ids=lambda law: law.__name__)
@every_solver
def test_solver_in_trouble(solver, law):
    law(solver)
