"""The function that meets one tile: statistics of a few rows and a vector of columns, and what they are used for.

Rows are (n, width): features, then |u|² of each squared distance, then tangents. Columns hold the same numbers, for
each tile feature by feature. Vectors v, A, B are apart.
"""

from __future__ import annotations

import itertools

from precog.codegen import calculus, expr
from precog.codegen.emit import Emitter
from precog.codegen.expr import Expr
from precog.codegen.layout import BLOCK, GROUP, MANY, PIECE, Layout, Shape
from precog.codegen.plan import Plan, lower, needs_sign
from precog.kernels.statistics import DOT, SQUARED_DISTANCE


class Tile:
    """Writes the function that meets one tile, `tile_<form>(...)`."""

    def __init__(self, plan: Plan, shape: Shape, place: Layout, form: str, R: int) -> None:
        self.plan, self.shape, self.place, self.form, self.R = plan, shape, place, form, R
        self.emitter = Emitter()
        self.T, self.L, self.C = place.tile, shape.lanes, shape.vectors
        self.body = self._body()

    def invariants(self) -> tuple[Expr, ...]:
        return tuple(self.emitter.invariants)

    def text(self) -> str:
        sides = 2 if self.shape.use == "grad" else 1
        arguments = "rows, cols, left, right, par, buf, extra, out, i0, i1, j0, j1, J"
        lines = [f"@njit(nogil=True, fastmath=FAST)\ndef tile_{self.form}({arguments}):"]
        lines += [f"    base = J * {self.place.size * self.T}", f"    vbase = J * {max(self.C, 1) * sides * self.T}"]
        lines += [f"    {name} = spread(F({value!r}))" for value, name in self.emitter.constants.items()]
        lines += [f"    {name} = spread(par[{k}])" for k, name in enumerate(self.emitter.invariants.values())]
        by_block = self.shape.use in ("both", "one") and self.C >= MANY
        lines += [f"    for b in range(i0, i1, {BLOCK}):" if by_block else f"    for i in range(i0, i1, {self.R}):"]
        lines += [f"        {line}" for line in self.body]
        return "\n".join(lines)

    def _body(self) -> list[str]:
        if self.shape.use in ("grad", "inputs"):
            return [*self._wide_sums(), *self._weights(), *self._by_feature()]
        if self.shape.use == "block":
            return self._block()
        return self._many_vectors() if self.C >= MANY else self._few_vectors()

    def _zero(self) -> str:
        return self.emitter.constant(0.0)

    def _loop(self, inner: list[str]) -> list[str]:
        return [f"for j in range(j0, j1, {self.L}):", "    reread()", *(f"    {line}" for line in inner)]

    def _by_products(self, a: int) -> bool:
        statistic = self.plan.accumulators[a].statistic
        return statistic is DOT or (statistic is SQUARED_DISTANCE and self.form == "products")

    def _rows(self, a: int, where: str, count: int) -> list[str]:
        """Return the lines that lay out features of R rows as the accumulation wants them.

        They are left in the first-level cache where an instruction can spread one over a register as it reads it.
        """
        accumulator, factor = self.plan.accumulators[a], 1.0
        if self._by_products(a):
            factor = -2.0 if accumulator.statistic is SQUARED_DISTANCE else 1.0
            factor *= -1.0 if accumulator.scale < 0 else 1.0
        elif accumulator.statistic is not SQUARED_DISTANCE:
            return [f"x{a}_{r} = spread_row(rows, i + {r}, {where}, {count}, F(1.0))" for r in range(self.R)]
        return [self._keep(where, count, factor)]

    def _keep(self, where: str, count: int, factor: float) -> str:
        held = f"{self._held} + {where}, {self.place.size}"
        return f"keep_rows(buf, {held}, rows, i, {self.R}, {where}, {count}, F({factor}))"

    @property
    def _held(self) -> int:
        """Where `buf` holds the numbers of R rows, in the order in which a row has them."""
        return self.place.rooms(self.shape, self.R) * self.T

    def _has_norm(self, a: int) -> bool:
        return self.place.norms[a] is not None and self.form == "products"

    def _norm_rows(self, a: int) -> str:
        return self._keep(str(self.place.norms[a] or 0), 1, -1.0 if self.plan.accumulators[a].scale < 0 else 1.0)

    def _norm_column(self, a: int) -> str:
        return f"h = load(cols, base + {(self.place.norms[a] or 0) * self.T} + j)"

    def _start(self, a: int) -> str:
        """Return the statistics of R rows before their first feature."""
        if not self._has_norm(a):
            return f"zeros(rows, {self.R})"
        rule = "difference" if self.plan.accumulators[a].scale < 0 else "sum"
        return f"begin_{rule}(buf, {self._held + (self.place.norms[a] or 0)}, {self.place.size}, {self.R}, h)"

    def _accumulate(self, a: int, where: str, count: int) -> list[str]:
        """Return the lines that add the features from `where` on to s{a}, the statistics of R rows."""
        accumulator, s, at = self.plan.accumulators[a], f"s{a}", f"base + {where} * {self.T} + j"
        negative = accumulator.scale < 0
        rule = "add_products" if self._by_products(a) else f"{'sub' if negative else 'add'}_squares"
        if self._by_products(a) or accumulator.statistic is SQUARED_DISTANCE:
            held = f"{self._held} + {where}, {self.place.size}"
            return [f"{s} = {rule}({s}, buf, {held}, {count}, cols, {at}, {self.T})"]
        lines = [f"{s}_{r} = {s}[{r}]" for r in range(self.R)]
        for q in range(count):
            lines += [f"y = load(cols, {at} + {q * self.T})"]
            for r in range(self.R):
                lines += self._term(a, f"x{a}_{r}[{q}]", "y", into="d")
                lines += [f"{s}_{r} = {s}_{r} {'-' if negative else '+'} d"]
        return [*lines, f"{s} = ({' '.join(f'{s}_{r},' for r in range(self.R))})"]

    def _term(self, a: int, x: str, y: str, into: str, along: str | None = None) -> list[str]:
        """Return the lines that put the term t(x, y), or its derivative in x or y, into a variable."""
        ux, uy = expr.symbol("s0"), expr.symbol("s1")
        e = expr.lift(self.plan.accumulators[a].statistic.term(ux, uy))
        if along is not None:
            e = calculus.diff(e, along)
        scratch = Emitter(prefix="p")
        scratch.constants = self.emitter.constants
        scratch.name(ux, 0, x)
        scratch.name(uy, 0, y)
        result = scratch.write(lower(e), 0)
        return [*scratch.lines, f"{into} = {result}"]

    def _clamped(self, a: int, r: int, roots: tuple[Expr, ...]) -> list[str]:
        """Return the line that keeps rounding from taking a squared distance below zero, where a root is taken."""
        if not self._by_products(a) or not self.plan.accumulators[a].statistic.nonnegative:
            return []
        if not any(needs_sign(e, f"s{a}") for e in roots):
            return []
        return [f"s{a}_{r} = greatest(s{a}_{r}, {self._zero()})"]

    def _wide_sums(self) -> list[str]:
        """Return the loops that leave the statistics of wide accumulators in `buf`, one piece of features at a time."""
        lines: list[str] = []
        for a, is_wide in enumerate(self.place.wide):
            if not is_wide:
                continue
            slots = f"buf, {self._slot(a)} + j, {self.T}"
            lines += [self._norm_rows(a)] if self._has_norm(a) else []
            start = [self._norm_column(a)] if self._has_norm(a) else []
            lines += self._loop([*start, f"store_all({slots}, {self._start(a)})"])
            first, last = self.place.offsets[a], self.place.offsets[a] + self.place.widths[a]
            inner = [f"s{a} = load_all({slots}, {self.R})", *self._accumulate(a, "k", PIECE)]
            piece = [*self._rows(a, "k", PIECE), *self._loop([*inner, f"store_all({slots}, s{a})"])]
            lines += [f"for k in range({first}, {last}, {PIECE}):", *(f"    {line}" for line in piece)]
        return lines

    def _slot(self, a: int, r: int = 0) -> int:
        return (a * self.R + r) * self.T

    def _row_features(self) -> list[str]:
        lines: list[str] = []
        for a, is_wide in enumerate(self.place.wide):
            if not is_wide:
                lines += self._rows(a, str(self.place.offsets[a]), self.place.widths[a])
                lines += [self._norm_rows(a)] if self._has_norm(a) else []
        return lines

    def _statistics(self, roots: tuple[Expr, ...]) -> list[str]:
        """Return the lines inside the loop over j that compute every statistic for every row."""
        lines: list[str] = []
        for a, is_wide in enumerate(self.place.wide):
            if is_wide:
                lines += [f"s{a} = load_all(buf, {self._slot(a)} + j, {self.T}, {self.R})"]
            else:
                lines += [self._norm_column(a)] if self._has_norm(a) else []
                lines += [f"s{a} = {self._start(a)}"]
                lines += self._accumulate(a, str(self.place.offsets[a]), self.place.widths[a])
            for r in range(self.R):
                self.emitter.name(expr.symbol(f"s{a}"), r, f"s{a}_{r}")
                lines += [f"s{a}_{r} = s{a}[{r}]", *self._clamped(a, r, roots)]
        return lines

    def _written(self, e: Expr, r: int) -> tuple[list[str], str]:
        """Return the new lines that compute an expression in row r, and the variable that holds it."""
        before = len(self.emitter.lines)
        variable = self.emitter.write(e, r)
        return self.emitter.lines[before:], variable

    def _entries(self) -> tuple[list[str], str]:
        """Return the lines inside the loop over j that compute K in R rows, and the tuple that holds it."""
        value = lower(self.plan.value)
        lines, entries = self._statistics((value,)), []
        for r in range(self.R):
            more, variable = self._written(value, r)
            lines += more
            entries.append(variable)
        return lines, f"({' '.join(f'{e},' for e in entries)})"

    def _block(self) -> list[str]:
        inner, entries = self._entries()
        inner += [f"store_all(out, (i - i0) * extra + J * {self.T} + j, extra, {entries})"]
        return [*self._wide_sums(), *self._row_features(), *self._loop(inner)]

    def _few_vectors(self) -> list[str]:
        """Use every entry while it is in a register: its row's sums and its column's are registers too."""
        R, C, T = self.R, self.C, self.T
        inner, entries = self._entries()
        inner += [f"e = {entries}", f"a = weigh_columns(a, e, right, vbase + j, {T})"]
        lines = [*self._wide_sums(), *self._row_features(), f"a = zeros(rows, {R * C})"]
        if self.shape.use == "both":
            inner += [f"m = weigh_rows(load_all(extra, j, {T}, {C}), e, left, i)", f"store_all(extra, j, {T}, m)"]
        return [*lines, *self._loop(inner), f"add_totals(out, i, 0, a, {R})"]

    def _many_vectors(self) -> list[str]:
        """Leave a small block of entries in the first-level cache and multiply it with the vectors, twice.

        Two vectors of columns by all right-hand sides, and two rows by all right-hand sides, are as many sums as there
        are registers: every entry that is loaded is used in one instruction for each of them.
        """
        R, C, T, L, block = self.R, self.C, self.T, self.L, self._block_start()
        inner, entries = self._entries()
        inner += [f"store_all(buf, {block} + (i - b) * {T} + j, {T}, {entries})"]
        lines = [f"for i in range(b, b + {BLOCK}, {R}):"]
        lines += [f"    {line}" for line in [*self._wide_sums(), *self._row_features(), *self._loop(inner)]]
        if self.shape.use == "both":
            lines += [f"for j in range(j0, j1, {2 * L}):"]
            lines += [f"    m{h} = load_all(extra, j + {h * L}, {T}, {C})" for h in range(2)]
            lines += [f"    for r in range({BLOCK}):"]
            entry = f"(load(buf, {block} + r * {T} + j + {{}}),)"
            lines += [f"        m{h} = weigh_rows(m{h}, {entry.format(h * L)}, left, b + r)" for h in range(2)]
            lines += [f"    store_all(extra, j + {h * L}, {T}, m{h})" for h in range(2)]
        lines += [f"for r in range(0, {BLOCK}, 2):", f"    a = zeros(rows, {2 * C})"]
        entries = f"load_all(buf, {block} + r * {T} + j, {T}, 2)"
        lines += [f"    {line}" for line in self._loop([f"a = weigh_columns(a, {entries}, right, vbase + j, {T})"])]
        return [*lines, "    add_totals(out, b + r, 0, a, 2)"]

    def _block_start(self) -> int:
        return len(self.place.widths) * self.R * self.T

    def _weights(self) -> list[str]:
        """Return the loop that leaves c_ij ∂K/∂sₐ in `buf` and adds up the scalar derivatives.

        c_ij = Σ_q A_iq B_jq, and A_jq B_iq on top where an entry stands for its mirror image too (`grad`; its caller
        passes a tile of zero A for entries that do not).
        """
        R, T, gradient = self.R, self.T, self.shape.use == "grad"
        wanted = self._wanted()
        slopes = {a: lower(expr.mul(1.0 if gradient else self._slope_factor(a), self.plan.slopes[a])) for a in wanted}
        scalars = tuple(lower(e) for e in self.plan.scalars) if gradient else ()
        count = self.C * (2 if gradient else 1)
        slot, L = len(self.place.widths) * R * T, self.L
        lines = [f"for j in range(j0, j1, {2 * L}):"]
        lines += [f"    c = rank_sums(left, i, {R}, {count}, right, vbase + j, {T})"]
        lines += [f"    store(buf, {slot + r * T + h * L} + j, c[{2 * r + h}])" for r in range(R) for h in range(2)]
        lines += self._row_features()
        lines += [f"g{k} = zeros(rows, 1)" for k in range(len(scalars))]
        inner = self._statistics((*slopes.values(), *scalars))
        inner += [f"c_{r} = load(buf, {slot + r * T} + j)" for r in range(R)]
        for r in range(R):
            for k, e in enumerate(scalars):
                more, variable = self._written(e, r)
                inner += [*more, f"g{k} = (g{k}[0] + c_{r} * {variable},)"]
            for a in wanted:
                more, variable = self._written(slopes[a], r)
                inner += [*more, f"store(buf, {self._slot(a, r)} + j, c_{r} * {variable})"]
        return [*lines, *self._loop(inner), *(f"add_totals(out, extra, {k}, g{k}, 1)" for k in range(len(scalars)))]

    def _slope_factor(self, a: int) -> float:
        # ∂t/∂x = 2 (x - y), of which the loop computes the difference.
        return 2.0 if self.plan.accumulators[a].statistic is SQUARED_DISTANCE else 1.0

    def _wanted(self) -> list[int]:
        """Return the accumulators whose features get a derivative each."""
        everything = self.shape.use == "inputs"
        return [a for a, accumulator in enumerate(self.plan.accumulators) if everything or accumulator.by_feature]

    def _by_feature(self) -> list[str]:
        lines: list[str] = []
        for a in self._wanted():
            first, width = self.place.offsets[a], self.place.widths[a]
            if self.place.wide[a]:
                lines += [f"for k in range({first}, {first + width}, {GROUP}):"]
                lines += [f"    {line}" for line in self._feature_group(a, "k", GROUP)]
                continue
            groups = -(-width // (GROUP + 4))
            edges = [first + g * width // groups for g in range(groups + 1)]
            for low, high in itertools.pairwise(edges):
                lines += self._feature_group(a, str(low), high - low)
        return lines

    def _feature_group(self, a: int, k: str, count: int) -> list[str]:
        """Return the loop that sums weight times term (or its derivative) for a few features at once."""
        R, per_row = self.R, self.shape.use == "inputs"
        sums = [f"f{r}" for r in range(R if per_row else 1)]
        lines = [f"x{r} = spread_row(rows, i + {r}, {k}, {count}, F(1.0))" for r in range(R)]
        lines += [f"{s} = zeros(rows, {count})" for s in sums]
        inner = [f"w{r} = load(buf, {self._slot(a, r)} + j)" for r in range(R)]
        for r in range(R):
            inner += self._weigh(a, f"f{r}" if per_row else "f0", r, f"base + {k} * {self.T} + j", count)
        if per_row:
            ends = [f"add_totals(out, i + {r}, {k}, f{r}, 1)" for r in range(R)]
        else:
            ends = [f"add_totals(out, extra, {len(self.plan.scalars)} + {k}, f0, 1)"]
            if self.place.tangents[a] is not None:
                lines += self._tangent_rows(a, k, count)
                inner += self._tangent_terms(a, k, count)
                ends += [f"add_totals(out, extra, {len(self.plan.scalars) + self.place.features} + {k}, h0, 1)"]
        return [*lines, *self._loop(inner), *ends]

    def _weigh(self, a: int, f: str, r: int, at: str, count: int) -> list[str]:
        statistic, per_row = self.plan.accumulators[a].statistic, self.shape.use == "inputs"
        if statistic in (SQUARED_DISTANCE, DOT):
            names = ("weigh_squares", "weigh_differences", "weigh_products", "weigh_column")
            name = names[2 * (statistic is DOT) + per_row]
            return [f"{f} = {name}({f}, w{r}, x{r}, cols, {at}, {self.T})"]
        lines = []
        for q in range(count):
            lines += [f"y = load(cols, {at} + {q * self.T})"]
            lines += self._term(a, f"x{r}[{q}]", "y", f"d{q}", along="s0" if per_row else None)
        return [*lines, f"{f} = ({' '.join(f'{f}[{q}] + w{r} * d{q},' for q in range(count))})"]

    def _tangent_rows(self, a: int, k: str, count: int) -> list[str]:
        lines = [f"z{r} = spread_row(rows, i + {r}, {k} + {self._shift(a)}, {count}, F(1.0))" for r in range(self.R)]
        return [*lines, f"h0 = zeros(rows, {count})"]

    def _shift(self, a: int) -> int:
        return (self.place.tangents[a] or 0) - self.place.offsets[a]

    def _tangent_terms(self, a: int, k: str, count: int) -> list[str]:
        """Return the lines that add w (∂t/∂x ẋ + ∂t/∂y ẏ) for each feature."""
        lines = []
        for r in range(self.R):
            for q in range(count):
                lines += [f"y = load(cols, base + ({k} + {q}) * {self.T} + j)"]
                lines += [f"u = load(cols, base + ({k} + {q + self._shift(a)}) * {self.T} + j)"]
                lines += self._term(a, f"x{r}[{q}]", "y", "d", along="s0")
                lines += self._term(a, f"x{r}[{q}]", "y", "e", along="s1")
                lines += [f"e{q} = d * z{r}[{q}] + e * u"]
            lines += [f"h0 = ({' '.join(f'h0[{q}] + w{r} * e{q},' for q in range(count))})"]
        return lines
