"""Where data sets come from: CSV files of the package, and .npz files in the folders named in PRECOG_DATA."""

from __future__ import annotations

import os
import zipfile
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from precog.datasets.record import Dataset

BUNDLED = ("concrete",)


def available() -> tuple[str, ...]:
    """Return the names that `load` knows now, in alphabetical order."""
    return tuple(sorted({*BUNDLED, *_found()}))


def load(name: str) -> Dataset:
    """Return the data set of that name; of two with one name, the bundled one, then the first in PRECOG_DATA."""
    if name in BUNDLED:
        return _read_csv(name)
    found = _found()
    if name in found:
        return _read_npz(name, found[name])
    raise ValueError(
        f"unknown data set {name!r}; available: {', '.join(available())}. "
        f"PRECOG_DATA (now {os.environ.get('PRECOG_DATA', '')!r}) names the folders, separated by {os.pathsep!r}, "
        "that are searched for <name>.npz files with arrays X and y"
    )


def _found() -> dict[str, Path]:
    folders = [Path(part).expanduser() for part in os.environ.get("PRECOG_DATA", "").split(os.pathsep) if part]
    return {file.stem: file for folder in reversed(folders) for file in sorted(folder.glob("*.npz"))}


def _read_csv(name: str) -> Dataset:
    """Read `# key: value` comments, a header, then rows; the columns listed under `extras` hold integers."""
    lines = resources.files("precog.datasets").joinpath(f"{name}.csv").read_text(encoding="utf-8").splitlines()
    comments = [line[1:].partition(":") for line in lines if line.startswith("#")]
    notes = {key.strip(): value.strip() for key, _, value in comments}
    header, *rows = [line for line in lines if not line.startswith("#")]
    columns = dict(zip(header.split(","), np.loadtxt(rows, delimiter=",", ndmin=2).T, strict=True))
    y = columns.pop(notes["target"])
    extras = {key: columns.pop(key) for key in notes["extras"].split()}
    return Dataset(
        name=name,
        X=_read_only(np.column_stack(list(columns.values())), np.float64),
        y=_read_only(y, np.float64),
        feature_names=tuple(columns),
        target_name=notes["target"],
        citation=notes["citation"],
        extras={key: _read_only(values, np.int64) for key, values in extras.items()},
    )


def _read_npz(name: str, file: Path) -> Dataset:
    try:
        with np.load(file, allow_pickle=False) as opened:
            arrays: dict[str, NDArray[Any]] = dict(opened)
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{file} cannot be read as an .npz file of plain arrays: {error}") from error
    for key in ("X", "y"):
        if key not in arrays:
            raise ValueError(f"{file} has no array {key!r}; a data set needs X (n, d) and y (n,)")
    X, y = arrays.pop("X"), arrays.pop("y")
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(f"{file} has X of shape {X.shape} and y of shape {y.shape}; expected (n, d) and (n,)")
    numbered = [f"x{j}" for j in range(X.shape[1])]
    return Dataset(
        name=name,
        X=_read_only(X, np.float64),
        y=_read_only(y, np.float64),
        feature_names=tuple(str(name) for name in arrays.pop("feature_names", numbered)),
        target_name=str(arrays.pop("target_name", "y")),
        citation=str(arrays.pop("citation", "")),
        extras={key: _read_only(values) for key, values in arrays.items()},
    )


def _read_only(values: NDArray[Any], dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Return a copy in rows that nobody can write to."""
    values = np.array(values, dtype=dtype, order="C")
    values.flags.writeable = False
    return values
