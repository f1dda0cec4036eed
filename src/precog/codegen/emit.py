"""Expressions to lines of vector code, every common part once, everything without a statistic outside the loop."""

from __future__ import annotations

from precog.codegen import expr
from precog.codegen.expr import FLOOR, Expr
from precog.codegen.plan import is_accumulator

FUNCTIONS = {
    "exp2": "exp2",
    "log2": "log2",
    "log1p": "log1p",
    "sin": "sin",
    "cos": "cos",
    "abs": "absolute",
    "min": "least",
    "max": "greatest",
    "step": "step",
}


class Emitter:
    """Writes expressions as assignments for one row at a time.

    `lines` are the body; `invariants` are expressions in hyperparameters alone, to be computed by the caller in float64
    and passed as numbers; `constants` are literals. Both are spread into registers before the loop.
    """

    def __init__(self, prefix: str = "t") -> None:
        self.prefix = prefix
        self.lines: list[str] = []
        self.invariants: dict[Expr, str] = {}
        self.constants: dict[float, str] = {}
        self._known: dict[tuple[Expr, int], str] = {}

    def name(self, e: Expr, row: int, variable: str) -> None:
        """Let `variable` stand for the expression in this row."""
        self._known[e, row] = variable

    def constant(self, value: float) -> str:
        return self.constants.setdefault(value, f"c{len(self.constants)}")

    def line(self, text: str) -> str:
        """Add an assignment to a new variable and return its name."""
        variable = f"{self.prefix}{len(self.lines)}"
        self.lines.append(f"{variable} = {text}")
        return variable

    def write(self, e: Expr, row: int) -> str:
        """Return the name of a variable that holds `e` in this row, adding the lines that compute it."""
        if e.op == "constant":
            return self.constant(e.value)
        if not any(is_accumulator(n) for n in expr.symbols(e)):
            return self.invariants.setdefault(e, f"q{len(self.invariants)}")
        known = self._known.get((e, row))
        if known is None:
            known = self._known[e, row] = self._compute(e, row)
        return known

    def _compute(self, e: Expr, row: int) -> str:
        if e.op == "add":
            return self._sum(e, row)
        if e.op == "mul":
            return self._product(e, row)
        if e.op not in FUNCTIONS:
            raise TypeError(f"{e.op} of a pair statistic is not available in a kernel formula, only in likelihoods")
        return self.line(f"{FUNCTIONS[e.op]}({', '.join(self.write(a, row) for a in e.args)})")

    def _sum(self, e: Expr, row: int) -> str:
        terms = list(zip(e.args, e.value, strict=True))
        fixed = [(a, w) for a, w in terms if not any(is_accumulator(n) for n in expr.symbols(a))]
        moving = [(a, w) for a, w in terms if (a, w) not in fixed]
        start = expr.add(*(expr.mul(w, a) for a, w in fixed))
        total = None if start == expr.ZERO else self.write(start, row)
        # Positive terms first, so that a difference does not begin with a negation.
        for a, w in sorted(moving, key=lambda term: term[1] == -1.0):
            value = self.write(a, row)
            if w not in (1.0, -1.0):
                value = f"{self.constant(w)} * {value}"
            if total is None:
                total = self.line(value if w != -1.0 else f"{self.constant(0.0)} - {value}")
            else:
                total = self.line(f"{total} {'-' if w == -1.0 else '+'} {value}")
        assert total is not None
        return total

    def _product(self, e: Expr, row: int) -> str:
        coefficient, exponents = e.value
        above, below, fixed = [], [], [expr.constant(coefficient)]
        for base, exponent in zip(e.args, exponents, strict=True):
            if not any(is_accumulator(n) for n in expr.symbols(base)):
                fixed.append(expr.power_of(base, exponent))
            elif exponent > 0:
                above.append(self._power(base, exponent, row))
            else:
                below.append(self._power(base, -exponent, row, guarded=True))
        factor = expr.mul(*fixed)
        if factor != expr.ONE or not above:
            above.insert(0, self.write(factor, row))
        text = " * ".join(above)
        if below:
            return self.line(f"({text}) / ({' * '.join(below)})")
        return self.line(text) if len(above) > 1 else above[0]

    def _power(self, base: Expr, exponent: float, row: int, *, guarded: bool = False) -> str:
        variable = self.write(base, row)
        if guarded and exponent != int(exponent):
            variable = self.line(f"greatest({variable}, {self.constant(FLOOR)})")
        if exponent not in (int(exponent), int(exponent) + 0.5):
            return self.line(f"exp2({self.constant(exponent)} * log2({variable}))")
        parts = [self.line(f"sqrt({variable})")] if exponent != int(exponent) else []
        square, left = variable, int(exponent)
        while left:
            if left & 1:
                parts.append(square)
            left >>= 1
            if left:
                square = self.line(f"{square} * {square}")
        return parts[0] if len(parts) == 1 else self.line(" * ".join(parts))
