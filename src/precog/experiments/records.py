"""What runs of published experiments share: names that are asked for, CSV files, and where published rows are found."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def known(what: str, names: Sequence[str], allowed: Sequence[str]) -> list[str]:
    """Return the names, each once, or say which one the experiment does not have."""
    if not names:
        raise ValueError(f"no {what} is named; this experiment has {', '.join(allowed)}")
    for name in names:
        if name not in allowed:
            raise ValueError(f"unknown {what} {name!r}; this experiment has {', '.join(allowed)}")
    return list(dict.fromkeys(names))


def read_csv(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Return the rows of a file with these columns; none of a file that does not exist."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as opened:
        reader = csv.DictReader(opened)
        if tuple(reader.fieldnames or ()) != tuple(columns):
            raise ValueError(f"{path} has columns {reader.fieldnames}; expected {list(columns)}. Choose another folder")
        return list(reader)


def write_csv(path: Path, columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> None:
    """Write a file at once: whoever interrupts finds the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with draft.open("w", encoding="utf-8", newline="") as opened:
            writer = csv.DictWriter(opened, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(records)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def find_reference(file: str, named: Path | None = None) -> Path | None:
    """Return the file of published rows: in the named folder, or in or beside the folders of PRECOG_DATA."""
    if named is not None:
        path = named / file if named.is_dir() else named
        if not path.is_file():
            raise ValueError(f"no published rows at {path}; name the folder that holds {file}")
        return path
    folders = [Path(part).expanduser() for part in os.environ.get("PRECOG_DATA", "").split(os.pathsep) if part]
    places = [place / file for folder in folders for place in (folder, folder.absolute().parent / "reference")]
    return next((path for path in places if path.is_file()), None)
