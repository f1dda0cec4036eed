"""What every kernel, operator, solver, preconditioner and likelihood must do.

To give an item every law, append it to its list.

A law takes an item and asserts. The lists hold values only; the `test_laws.py` of each layer applies laws to them.
"""

from laws.factors import FACTOR_LAWS
from laws.kernels import (
    COMPILED,
    COMPILED_LAWS,
    COMPOSITE,
    KERNEL_LAWS,
    KERNELS,
    NESTED,
    Cauchy,
    Exponential,
    Laplace,
    assert_gradient,
    assert_input_gradient,
    loops_asked_for,
)
from laws.likelihoods import LIKELIHOOD_LAWS, LIKELIHOODS, Careless, Weibull
from laws.operators import OPERATOR_LAWS, OPERATORS
from laws.preconditioners import FAMILY_LAWS, PRECONDITIONED, PRECONDITIONER_LAWS, PRECONDITIONERS
from laws.solvers import (
    HARD_SYSTEMS,
    SOLVER_LAWS,
    SOLVERS,
    SYSTEMS,
    TROUBLE_LAWS,
    Inverse,
    Jacobi,
    Watched,
    honest_at_the_limit,
)

__all__ = [
    "COMPILED",
    "COMPILED_LAWS",
    "COMPOSITE",
    "FACTOR_LAWS",
    "FAMILY_LAWS",
    "HARD_SYSTEMS",
    "KERNELS",
    "KERNEL_LAWS",
    "LIKELIHOODS",
    "LIKELIHOOD_LAWS",
    "NESTED",
    "OPERATORS",
    "OPERATOR_LAWS",
    "PRECONDITIONED",
    "PRECONDITIONERS",
    "PRECONDITIONER_LAWS",
    "SOLVERS",
    "SOLVER_LAWS",
    "SYSTEMS",
    "TROUBLE_LAWS",
    "Careless",
    "Cauchy",
    "Exponential",
    "Inverse",
    "Jacobi",
    "Laplace",
    "Watched",
    "Weibull",
    "assert_gradient",
    "assert_input_gradient",
    "honest_at_the_limit",
    "loops_asked_for",
]
