"""The functions that run over all tiles: what one thread does until no task is left."""

from __future__ import annotations

from precog.codegen.layout import LINE, SQUARE, Layout, Shape

# `state` is shared by the threads: the next task, a request to stop, tasks done, then for every chunk of rows how many
# tasks have written to it. A task waits until both of its chunks have had exactly the tasks that come before it in the
# list, so every sum has one order, whatever the number of threads.
NEXT, STOP, DONE, TURNS = 0, 1, 2, 3

_CALL = "tile_{form}(rows, cols, left, right, par, buf, {extra}, {out}, {i0}, {i1}, {j0}, {j1}, J)"


def _call(forms: tuple[str, ...], indent: int, *, out: str = "out", **arguments: str) -> str:
    pad = " " * indent
    calls = [_CALL.format(form=form, out=out, **arguments) for form in forms]
    if len(forms) == 1:
        return pad + calls[0]
    return f"{pad}if differences:\n{pad}    {calls[1]}\n{pad}else:\n{pad}    {calls[0]}"


def driver(shape: Shape, place: Layout, forms: tuple[str, ...], R: int) -> str:
    """Return the text of `run`, which calls the tile function of the form that it is asked for."""
    T = place.tile
    literals = {
        "F": shape.dtype,
        "T": T,
        "C": max(shape.vectors, 1),
        "S": SQUARE,
        "L": LINE,
        "buffer": f"aligned(np.empty({place.rooms(shape, R) * T + R * place.size + LINE}, F))",
    }
    if shape.use in ("both", "grad"):
        gradient = shape.use == "grad"
        extra, unused = ("task", "task") if gradient else ("mirror", "unused")
        square = {"i0": "i", "i1": f"i + {SQUARE}"}
        edge = f"i - J * {T}"
        below = _call(forms, 16, extra=extra, i0=f"I * {T}", i1=f"(I + 1) * {T}", j0="0", j1=str(T))
        itself = _call(forms, 20, extra=unused, **square, j0=edge, j1=f"{edge} + {SQUARE}")
        rest = _call(forms, 20, extra=extra, **square, j0=f"{edge} + {SQUARE}", j1=str(T))
        if gradient:
            itself = itself.replace("right,", "alone,")
        template = _GRADIENT if gradient else _SYMMETRIC
        return template.format(**literals, below=below, itself=itself, rest=rest)
    block = shape.use == "block"
    out = "out[tasks[task, 0] * stride :]" if block else "out"
    call = _call(forms, 12, extra="stride", out=out, i0="tasks[task, 0]", i1="tasks[task, 1]", j0="0", j1=str(T))
    return _RECTANGULAR.format(**literals, kind=f"{shape.dtype}[::1]" if block else "float64[:, ::1]", call=call)


_SYMMETRIC = """@njit(
    "void({F}[:, ::1], {F}[::1], {F}[:, ::1], {F}[::1], {F}[::1], float64[:, ::1], float64[:, ::1],"
    " int64[:, ::1], int64[::1], uint8[:, ::1], int64, boolean)",
    nogil=True, cache=True,
)
def run(rows, cols, left, right, par, out, mirrored, tasks, state, skip, span, differences):
    buf = {buffer}
    mirror = aligned(np.empty({C} * {T} + {L}, F))
    unused = np.zeros({C} * {T}, F)
    tiles = rows.shape[0] // {T}
    skipping = skip.shape[0] > 0
    while True:
        task = fetch_add(state, 0, 1)
        if task >= tasks.shape[0] or peek(state, 1) != 0:
            return
        first, second = tasks[task, 0], tasks[task, 1]
        while peek(state, 3 + first) != tasks[task, 2] or peek(state, 3 + second) != tasks[task, 3]:
            if peek(state, 1) != 0:
                return
        for J in range(second * span, min((second + 1) * span, tiles)):
            if peek(state, 1) != 0:
                return
            for I in range(first * span, min((first + 1) * span, tiles, J)):
                if skipping and skip[I, J]:
                    continue
                mirror[:] = F(0.0)
{below}
                for k in range({C} * {T}):
                    mirrored[J, k] += mirror[k]
            if first == second:
                mirror[:] = F(0.0)
                for i in range(J * {T}, (J + 1) * {T}, {S}):
{itself}
{rest}
                for k in range({C} * {T}):
                    mirrored[J, k] += mirror[k]
        fetch_add(state, 3 + first, 1)
        if second != first:
            fetch_add(state, 3 + second, 1)
        fetch_add(state, 2, 1)"""

_GRADIENT = """@njit(
    "void({F}[:, ::1], {F}[::1], {F}[:, ::1], {F}[::1], {F}[::1], {F}[::1], float64[:, ::1],"
    " int64[:, ::1], int64[::1], uint8[:, ::1], boolean)",
    nogil=True, cache=True,
)
def run(rows, cols, left, right, alone, par, out, tasks, state, skip, differences):
    buf = {buffer}
    skipping = skip.shape[0] > 0
    while True:
        task = fetch_add(state, 0, 1)
        if task >= tasks.shape[0] or peek(state, 1) != 0:
            return
        once = tasks[task, 4] != 0
        for J in range(tasks[task, 2], tasks[task, 3]):
            if peek(state, 1) != 0:
                return
            for I in range(tasks[task, 0], min(tasks[task, 1], J) if once else tasks[task, 1]):
                if skipping and skip[I, J]:
                    continue
{below}
            if once:
                for i in range(J * {T}, (J + 1) * {T}, {S}):
{itself}
{rest}
        fetch_add(state, 2, 1)"""

_RECTANGULAR = """@njit(
    "void({F}[:, ::1], {F}[::1], {F}[:, ::1], {F}[::1], {F}[::1], {kind},"
    " int64[:, ::1], int64[::1], uint8[:, ::1], int64, boolean)",
    nogil=True, cache=True,
)
def run(rows, cols, left, right, par, out, tasks, state, skip, stride, differences):
    buf = {buffer}
    skipping = skip.shape[0] > 0
    while True:
        task = fetch_add(state, 0, 1)
        if task >= tasks.shape[0]:
            return
        for J in range(tasks[task, 2]):
            if peek(state, 1) != 0:
                return
            if skipping and skip[task, J]:
                continue
{call}
        fetch_add(state, 2, 1)"""
