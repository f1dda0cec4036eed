"""What the compiler made of the hot loops: whole registers of arithmetic, nothing one number at a time."""

from __future__ import annotations

import functools
import platform
import re

import llvmlite.binding as llvm
import pytest

from precog.codegen.layout import Shape
from precog.codegen.loops import source
from precog.codegen.plan import trace
from precog.codegen.vector import BYTES
from precog.kernels import RBF

CASES = {
    "float32": Shape("both", "float32", 1),
    "float64": Shape("both", "float64", 1),
    "eight vectors": Shape("both", "float32", 8),
}
# Multiplications that the polynomial of an exponential takes at least.
TERMS = {"float32": 4, "float64": 8}
every_case = pytest.mark.parametrize("case", CASES)


@functools.cache
def machine_code(case: str) -> tuple[str, str]:
    """Return the optimised LLVM text and the assembly of a loop; Numba keeps neither for loops from a cache."""
    text = source(trace(RBF(), 2), CASES[case]).text
    names: dict[str, object] = {}
    exec(compile(text.replace("cache=True", "cache=False"), f"<{case}>", "exec"), names)
    run = names["run"]
    return "\n".join(run.inspect_llvm().values()), "\n".join(run.inspect_asm().values())


def loops(text: str, label: str, jump: str) -> list[str]:
    """Return the loops that are one basic block: the text from a label to the jump back to it."""
    found = []
    for function in re.split(r"^define |^\t\.globl", text, flags=re.M):
        pieces = re.split(label, function, flags=re.M)
        for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
            back = re.search(jump.format(re.escape(name)) + r"(?![\w.$-])", body, re.M)
            found += [body[: back.start()]] if back else []
    return found


def llvm_loops(case: str) -> list[str]:
    return loops(machine_code(case)[0], r"^([\w.$-]+):.*$", r"^  br .*label %{}")


def exponential_loops(case: str) -> list[str]:
    """Return the loops that put exponents together, by an integer shift of a whole register."""
    shape = CASES[case]
    shift = rf"= shl[a-z ]* <{shape.lanes} x i{8 * shape.itemsize}>"
    return [body for body in llvm_loops(case) if re.search(shift, body)]


def arithmetic(body: str, kind: str) -> int:
    """Return how many additions, subtractions, multiplications and divisions a block does in one type."""
    return len(re.findall(rf"= f(?:add|sub|mul|div)[a-z ]* {re.escape(kind)} ", body))


def names_of(shape: Shape) -> tuple[str, str]:
    """Return LLVM's names of a number and of a register."""
    scalar = "float" if shape.dtype == "float32" else "double"
    return scalar, f"<{shape.lanes} x {scalar}>"


@every_case
def test_exponentials_are_computed_by_whole_registers(case):
    scalar, register = names_of(CASES[case])
    hot = exponential_loops(case)
    assert hot
    assert min(arithmetic(body, register) for body in hot) >= 2 * TERMS[CASES[case].dtype]
    assert [arithmetic(body, scalar) for body in hot] == [0] * len(hot)


@every_case
def test_no_loop_mixes_registers_and_single_numbers(case):
    scalar, register = names_of(CASES[case])
    assert all(arithmetic(body, scalar) == 0 for body in llvm_loops(case) if arithmetic(body, register))


@every_case
def test_hot_loop_calls_nothing(case):
    for body in exponential_loops(case):
        assert re.findall(r"\bcall [^@]*@(?!llvm\.)\S+", body) == []
    assert re.findall(r"@(?:_*svml_|llvm\.)?(?:exp2?|pow)[if]?[\d.(]\S*", machine_code(case)[0]) == []


@every_case
def test_hot_loop_needs_no_check_for_overlap(case):
    # The compiler's own vectoriser checks first whether arrays overlap, and calls what it makes vector.body.
    named = loops(machine_code(case)[0], r"^(vector\.body\d*):.*$", r"^  br .*label %{}")
    assert not any(body in named for body in exponential_loops(case))


def fused_instructions() -> str | None:
    """Return a pattern for a fused multiply-add of a whole register on this machine, if it has one."""
    machine, features = platform.machine().lower(), llvm.get_host_cpu_features()
    if machine in ("x86_64", "amd64") and features.get("fma"):
        return rf"\bvfn?m(?:add|sub)\d+p[sd]\s.*%{ {16: 'x', 32: 'y', 64: 'z'}[BYTES] }mm"
    if machine in ("arm64", "aarch64"):
        return r"\bfml[as]\b"
    return None


@every_case
def test_multiplications_and_additions_are_fused(case):
    fused = fused_instructions()
    if fused is None:
        pytest.skip("this processor has no fused multiply-add")
    bodies = loops(machine_code(case)[1], r"^(\.?L\w+):.*$", r"^\tj?b?\S*\t(?:.*, )?{}")
    hot = [body for body in bodies if len(re.findall(fused, body)) >= TERMS[CASES[case].dtype]]
    assert hot
    # On x86 scalar arithmetic ends in ss or sd.
    assert all(re.findall(r"\bv?(?:add|sub|mul|div|fn?m(?:add|sub)\d+)s[sd]\b", body) == [] for body in hot)
