"""How the package is put together: imports go one way, files and functions stay short, names say what is inside."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import precog

PACKAGE = Path(precog.__file__).parent

# Each layer with the ones it may import; `checks` and `version` lie below all, and whoever is below may be used above.
ABOVE = {
    "checks": (),
    "version": (),
    "kernels": (),
    "codegen": ("kernels",),
    "operators": ("codegen", "kernels"),
    "solvers": ("operators", "kernels"),
    "precond": ("solvers", "operators", "kernels"),
    "likelihoods": ("codegen", "kernels"),
    "inference": ("likelihoods", "precond", "solvers", "operators", "kernels"),
    "sparse": ("inference", "likelihoods", "precond", "solvers", "operators", "kernels"),
    "kmcg": ("inference", "likelihoods", "precond", "solvers", "operators", "kernels"),
    "estimators": ("sparse", "kmcg", "inference", "likelihoods", "precond", "solvers", "operators", "kernels"),
    "datasets": (),
    "distributed": ("operators", "kernels"),
}
BOTTOM = ("checks", "version")
# These belong to the user's side and may import everything.
TOP = ("", "experiments", "cli", "__main__")
FORBIDDEN_NAMES = {"utils", "helpers", "common", "core", "settings"}
LONGEST_FILE, LONGEST_FUNCTION = 400, 80

FILES = sorted(PACKAGE.rglob("*.py"))
every_file = pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))


def layer_of(file: Path) -> str:
    """Return the folder or the module right below the package; "" is the package's own map."""
    first = file.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py").removesuffix("__init__")


def for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports(node: ast.AST) -> list[str]:
    """Return the modules that a file imports, inside functions too, but not those that only type checkers see."""
    found = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            found += [name.name for name in child.names]
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            found += [f"{child.module}.{name.name}" for name in child.names]
        elif for_types_only(child):
            assert isinstance(child, ast.If)
            found += [name for statement in child.orelse for name in imports(ast.Module([statement], []))]
        else:
            found += imports(child)
    return found


def layers_used(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    used = {name.split(".")[1] for name in imports(tree) if name.startswith("precog.")}
    known = {path.name.removesuffix(".py") for path in PACKAGE.iterdir()}
    # A name such as `precog.RBF` goes through the map: it stands for all layers.
    return used if used <= known else used | {"precog"}


@every_file
def test_imports_go_one_way(file):
    layer = layer_of(file)
    if layer in TOP:
        return
    assert layer in ABOVE, f"{layer} has no place among the layers yet"
    wrong = layers_used(file) - {layer, *ABOVE[layer], *BOTTOM}
    assert not wrong, f"{layer} must not import {', '.join(sorted(wrong))}"


@pytest.mark.parametrize("layer", sorted(ABOVE))
def test_table_of_layers_has_no_circle(layer):
    for lower in ABOVE[layer]:
        assert layer not in ABOVE[lower]
        assert set(ABOVE[lower]) <= set(ABOVE[layer]) | {"codegen"}


@every_file
def test_files_are_short(file):
    lines = len(file.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST_FILE, f"{lines} lines"


@every_file
def test_functions_are_short(file):
    long = {
        node.name: node.end_lineno - node.lineno + 1
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION
    }
    assert not long


def test_names_say_what_is_inside():
    names = {part for file in FILES for part in file.relative_to(PACKAGE).with_suffix("").parts}
    assert not names & FORBIDDEN_NAMES


@every_file
def test_modules_say_what_they_are_for(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree) or not tree.body
