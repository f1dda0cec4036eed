"""The command line: `precog demo`, `precog reproduce` and `precog info`."""

import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from precog.version import __version__

if TYPE_CHECKING:
    import typer

# The widest instructions that a processor has, by the feature that LLVM reports, widest first.
VECTOR_BITS = {"avx512f": 512, "avx2": 256, "avx": 256, "sse2": 128, "neon": 128}


def main() -> None:
    """Run the command line, or say what to install."""
    try:
        import typer  # noqa: F401
    except ImportError:
        print("the command line needs typer; install precog[cli]", file=sys.stderr)
        raise SystemExit(1) from None
    application()()


# Typer reads annotations, which must not be strings here because `typer` is imported inside the function.
def application() -> "typer.Typer":
    """Return the commands; each imports what it needs, so that `--help` does not wait for a compiler to load."""
    import typer

    app = typer.Typer(name="precog", no_args_is_help=True, add_completion=False)

    @app.callback(invoke_without_command=True)
    def options(
        version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
    ) -> None:
        """Kernel machines by preconditioned conjugate gradients, without storing a kernel matrix."""
        if version:
            print(__version__)
            raise typer.Exit

    @app.command()
    def demo(plot: Annotated[Path | None, typer.Option(help="Save a figure here, such as demo.png.")] = None) -> None:
        """Fit the bundled Concrete data, compare with scikit-learn, and time a product at a larger size."""
        from precog.experiments.demo import run

        try:
            run(plot)
        except ImportError as error:
            print(error, file=sys.stderr)
            raise typer.Exit(1) from None

    @app.command()
    def info() -> None:
        """Print versions, the processor, the threads in use and the folder of compiled loops."""
        for label, value in facts().items():
            print(f"{label:<16}{value}")

    app.add_typer(reproductions(), name="reproduce")
    return app


def reproductions() -> "typer.Typer":
    """Return the commands under `precog reproduce`."""
    import typer

    group = typer.Typer(no_args_is_help=True)

    @group.callback()
    def reproduce() -> None:
        """Repeat published experiments and compare with the published numbers, where they are at hand."""

    @group.command("cutajar2016-fig1")
    def figure1(
        out: Annotated[Path, typer.Option(help="Folder of the results; an interrupted run goes on.")] = Path("fig1"),
        datasets: Annotated[str, typer.Option(help="Data sets, separated by commas.")] = "concrete,powerplant,protein",
        preconditioners: Annotated[str, typer.Option(help="Such as nystrom,fitc; all by default.")] = "",
        cells: Annotated[
            str | None, typer.Option(help="Pairs log10 ℓ, log10 σ², such as '-1,-2;0,-2', or 'cg<=1000' (published).")
        ] = None,
        quick: Annotated[bool, typer.Option("--quick", help="A few minutes: concrete only, without ski.")] = False,
        reference: Annotated[Path | None, typer.Option(help="Folder of the published fig1.csv.")] = None,
    ) -> None:
        """Count iterations of conjugate gradients with eleven preconditioners: Figure 1 of Cutajar et al. (2016)."""
        from precog.experiments import figure1 as experiment

        names, methods = _names(datasets), _names(preconditioners) or None
        try:
            experiment.run(out, datasets=names, preconditioners=methods, cells=cells, quick=quick, reference=reference)
        except (ImportError, ValueError) as error:
            print(error, file=sys.stderr)
            raise typer.Exit(1) from None

    @group.command("cutajar2016-fig2")
    def figure2(
        out: Annotated[Path, typer.Option(help="Folder of the results; an interrupted run goes on.")] = Path("fig2"),
        datasets: Annotated[str, typer.Option(help="Such as concrete,powerplant; all by default.")] = "",
        kernels: Annotated[str, typer.Option(help="ARD or RBF (isotropic); both by default.")] = "",
        methods: Annotated[str, typer.Option(help="Such as pcg,default; all by default.")] = "",
        folds: Annotated[int | None, typer.Option(help="Folds, 3 by default.")] = None,
        budget: Annotated[
            float | None, typer.Option(help="Seconds of learning for each method and fold; 60 to 1200 by default.")
        ] = None,
        predict_every: Annotated[int, typer.Option(help="Predict at every so many evaluations.")] = 1,
        max_memory: Annotated[float, typer.Option(help="Gigabytes; above, dense methods are left out.")] = 8.0,
        quick: Annotated[bool, typer.Option("--quick", help="A few minutes: concrete only, one fold.")] = False,
        reference: Annotated[Path | None, typer.Option(help="Folder of the published fig2.csv.")] = None,
    ) -> None:
        """Held-out error and likelihood against seconds of learning: Figures 2 and 3 of Cutajar et al. (2016)."""
        from precog.experiments import figure2 as experiment

        try:
            experiment.run(
                out,
                datasets=_names(datasets) or None,
                kernels=_names(kernels) or None,
                methods=_names(methods) or None,
                folds=folds,
                budget=budget,
                predict_every=predict_every,
                max_memory=1e9 * max_memory,
                quick=quick,
                reference=reference,
            )
        except (ImportError, ValueError) as error:
            print(error, file=sys.stderr)
            raise typer.Exit(1) from None

    return group


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def facts() -> dict[str, str]:
    """Return what a report of a problem should say about the machine and the installation."""
    from llvmlite import binding

    from precog.codegen.build import cache_folder

    features = binding.get_host_cpu_features()
    width = next((bits for feature, bits in VECTOR_BITS.items() if features.get(feature)), None)
    return {
        "precog": __version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("numpy", "scipy", "numba", "scikit-learn")},
        "processor": f"{binding.get_host_cpu_name()}, {f'{width}-bit vectors' if width else 'vector width unknown'}",
        "threads": str(_threads()),
        "compiled loops": str(cache_folder()),
    }


def _threads() -> int:
    """Count the processors that this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
