"""Values with hyperparameters: frozen dataclasses whose fields are found, bounded, fixed and printed by name."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, Self, dataclass_transform

from precog.kernels import parameters
from precog.kernels.parameters import DEFAULT_BOUNDS, Bound, parameter


@dataclass_transform(frozen_default=True, field_specifiers=(parameter, dataclasses.field))
class Parametrised:
    """What kernels and likelihoods share. Subclasses are frozen dataclasses without asking for it.

    Fields declared by `parameter(default)` are hyperparameters; each gets a keyword `<name>_bounds` of its own.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        annotations = dict(inspect.get_annotations(cls))
        for name, default in list(vars(cls).items()):
            if isinstance(default, dataclasses.Field) and "hyperparameter" in default.metadata:
                key = f"{name}_bounds"
                given = vars(cls).get(key, DEFAULT_BOUNDS)
                annotations.setdefault(key, "Bounds")
                if not isinstance(given, dataclasses.Field):
                    setattr(cls, key, dataclasses.field(default=given, kw_only=True))
        cls.__annotations__ = annotations
        dataclasses.dataclass(frozen=True, repr=False)(cls)

    def __post_init__(self) -> None:
        owner = type(self).__name__
        for name in self.parameter_names():
            value = parameters.positive(owner, name, getattr(self, name))
            size = len(value) if isinstance(value, tuple) else None
            if size is not None and name in self.formula_parameters():
                raise TypeError(f"{owner}: {name} is one number, got a list of {size}; give each its own kernel")
            given = getattr(self, f"{name}_bounds")
            object.__setattr__(self, name, value)
            object.__setattr__(self, f"{name}_bounds", parameters.bounds(owner, name, given, size))

    @classmethod
    def parameter_names(cls) -> tuple[str, ...]:
        return tuple(f.name for f in dataclasses.fields(cls) if "hyperparameter" in f.metadata)  # type: ignore[arg-type]

    def formula_parameters(self) -> tuple[str, ...]:
        """Return the hyperparameters that the formula reads."""
        return self.parameter_names()

    def values(self) -> SimpleNamespace:
        """Return what the formula finds in p."""
        return SimpleNamespace(**{name: getattr(self, name) for name in self.formula_parameters()})

    def _parts(self) -> Iterator[tuple[str, tuple[float, ...], tuple[Bound, ...], bool]]:
        for name in self.parameter_names():
            value, bound = getattr(self, name), getattr(self, f"{name}_bounds")
            values = value if isinstance(value, tuple) else (value,)
            each = bound if isinstance(bound, tuple) and not isinstance(bound[0], float) else (bound,) * len(values)
            yield name, values, each, isinstance(value, tuple)

    def elements(self) -> list[tuple[str, bool]]:
        """Return the name of every element of every hyperparameter, and whether it is free."""
        return [
            (f"{name}[{i}]" if many else name, bound != "fixed")
            for name, _, bounds, many in self._parts()
            for i, bound in enumerate(bounds)
        ]

    def free_values(self) -> list[float]:
        return [
            v for _, values, bounds, _ in self._parts() for v, b in zip(values, bounds, strict=True) if b != "fixed"
        ]

    def element_bounds(self) -> list[Bound]:
        return [b for _, _, bounds, _ in self._parts() for b in bounds]

    def with_free_values(self, new: Iterator[float]) -> Self:
        changes: dict[str, Any] = {}
        for name, values, bounds, many in self._parts():
            replaced = tuple(v if b == "fixed" else next(new) for v, b in zip(values, bounds, strict=True))
            changes[name] = replaced if many else replaced[0]
        return _replaced(self, changes)

    def _fix(self, prefix: str, names: Iterable[str], matched: set[str]) -> Self:
        changes: dict[str, Any] = {}
        for name, _, bounds, many in self._parts():
            own = {n for n in names if n.removeprefix(prefix).split("[")[0] == name and n.startswith(prefix)}
            which = {n.removeprefix(prefix) for n in own}
            hit = [name in which or f"{name}[{i}]" in which for i in range(len(bounds))]
            if any(hit):
                fixed = tuple("fixed" if h else b for h, b in zip(hit, bounds, strict=True))
                changes[f"{name}_bounds"] = "fixed" if all(hit) or not many else fixed
                matched |= own
        return _replaced(self, changes) if changes else self

    def text(self, number: Callable[[float], str]) -> str:
        shown = [
            f"{f.name}={_written(getattr(self, f.name), number, pair=f.name.endswith('_bounds'))}"
            for f in dataclasses.fields(self)  # type: ignore[arg-type]
            if getattr(self, f.name) != f.default or getattr(self, f"{f.name}_bounds", "fixed") != "fixed"
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def _replaced(leaf: Any, changes: dict[str, Any]) -> Any:
    return dataclasses.replace(leaf, **changes)


def _written(value: Any, number: Callable[[float], str], *, pair: bool) -> str:
    if isinstance(value, float):
        return number(value)
    if isinstance(value, tuple):
        inner = ", ".join(_written(v, number, pair=pair) for v in value)
        return f"({inner})" if pair and isinstance(value[0], float) else f"[{inner}]"
    return repr(value)
