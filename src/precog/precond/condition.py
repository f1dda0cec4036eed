"""The condition number of P⁻¹ A from the coefficients of a few steps of conjugate gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from precog.operators import Operator
from precog.solvers import PCG

STEPS = 20


def condition(P: Any, A: Operator) -> float | None:
    """Return λ_max / λ_min of P⁻¹ A as Lanczos sees it after some steps: from below, and close at the large end.

    None where there is no first step, because P is not positive definite as computed.
    """
    right = np.random.default_rng(0).standard_normal(A.shape[0])
    solution = PCG(rtol=1e-12, max_iter=STEPS, precision="auto").solve(A, right, precond=P)
    values = solution.lanczos.ritz(0)
    return float(values[-1] / values[0]) if len(values) else None
