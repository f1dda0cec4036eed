"""Compiled loops: generated text to an importable file, once, and from there to machine code, once.

Numba keeps machine code between processes only for functions of importable files. So the text goes to
`<cache>/<sha256 of the text>.py`, which is never written again (its time stamp is part of Numba's key), and is imported
under a name made of the same digest. Where no file can be written, the text is compiled in memory, with one warning.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from precog.codegen import loops
from precog.codegen import skinny as skinny_products
from precog.codegen.layout import Shape
from precog.codegen.loops import Source
from precog.codegen.plan import Plan
from precog.version import __version__


@dataclass(frozen=True)
class Compiled:
    """The loop for one use of a plan; `from_cache` says that no compiler ran for it in this process."""

    run: Callable[..., None]
    source: Source

    @property
    def from_cache(self) -> bool:
        return bool(sum(self.run.stats.cache_hits.values()))  # type: ignore[attr-defined]


def cache_folder() -> Path:
    """Return where compiled loops are kept: PRECOG_CACHE_DIR, or the user's cache folder."""
    chosen = os.environ.get("PRECOG_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return base / "precog"


@functools.cache
def compiled(plan: Plan, shape: Shape) -> Compiled:
    """Return the loop for one use of a plan, from memory, from the cache, or from the compiler."""
    source = loops.source(plan, shape)
    return Compiled(_module(source.text).run, source)


@functools.cache
def skinny(dtype: str, columns: int) -> ModuleType:
    """Return `project` and `expand` for a stored factor and a number of columns."""
    return _module(skinny_products.text(dtype, columns))


@functools.cache
def _module(text: str) -> ModuleType:
    # The vector functions and templates take part in the machine code but not in the text: a new version is a new file.
    text = f"# precog {__version__}, vectors {_vector_digest()}\n{text}"
    name = f"precog_{hashlib.sha256(text.encode()).hexdigest()}"
    try:
        return _import(name, _write(cache_folder() / f"{name}.py", text))
    except Exception as error:  # a damaged file can raise anything; an error in the text itself comes again below
        sys.modules.pop(name, None)
        _warn(f"{type(error).__name__}: {error}")
    module = ModuleType(name)
    exec(compile(text.replace("cache=True", "cache=False"), f"<{name}>", "exec"), module.__dict__)
    return module


@functools.cache
def _vector_digest() -> str:
    from precog.codegen import memory, registers, vector

    texts = [Path(str(module.__file__)).read_bytes() for module in (vector, registers, memory)]
    return hashlib.sha256(b"".join(texts)).hexdigest()[:16]


def _write(path: Path, text: str) -> Path:
    """Create the file unless it is there, at once and whole, however many processes try."""
    if path.exists():
        if path.read_bytes() == text.encode():
            return path
        path.unlink(missing_ok=True)  # damaged: its name is the digest of what belongs there
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        try:
            os.link(temporary, path)  # unlike a rename, it fails where another process was first
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            if not path.exists():
                os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return path


def _import(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Numba looks the module up by name when it loads machine code
    spec.loader.exec_module(module)
    return module


_told: set[Any] = set()


def _warn(reason: str) -> None:
    if "cache" not in _told:
        _told.add("cache")
        warnings.warn(
            f"precog cannot keep compiled loops in {cache_folder()} ({reason}); every process will compile its own. "
            "Set PRECOG_CACHE_DIR to a folder that can be written.",
            RuntimeWarning,
            stacklevel=4,
        )
