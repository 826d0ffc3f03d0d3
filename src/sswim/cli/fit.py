"""The command ``sswim fit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from sswim.base.validation import UserError, as_bytes
from sswim.cli import options
from sswim.cli.console import messages, output, say, say_left_out, user_errors
from sswim.cli.entry import STOPPED, stop_on_interrupt
from sswim.files.output_files import save_somewhere

if TYPE_CHECKING:
    from sswim.estimator.base import BaseRegressor


def fit(
    table: options.TablePath,
    target: Annotated[str, Option(help="Column to predict.")],
    out: Annotated[Path, Option(help="Model file to write.")],
    force: options.Force = False,
    drop: Annotated[list[str] | None, Option(help="Column to ignore; repeatable.")] = None,
    text: options.KeepText = None,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    header: options.Header = None,
    keep_index: options.KeepIndex = False,
    coordinates: options.Coordinates = None,
    drop_missing: options.DropMissing = False,
    drop_missing_target: options.DropMissingTarget = False,
    depth: Annotated[int | None, Option(help="Train one model with this many warps.")] = None,
    n_neighbors: Annotated[
        int | None, Option(help="Train one model that predicts from this many nearest rows.")
    ] = None,
    local_amplitude: Annotated[
        bool | None, Option(help="With neighbours: each neighbourhood has its own amplitude.")
    ] = None,
    n_components: Annotated[int | None, Option(help="Number of Fourier features.")] = None,
    n_pseudo: Annotated[int | None, Option(help="Number of pseudo-points per warp.")] = None,
    warps: Annotated[str | None, Option(help="joint or separate.")] = None,
    warp_matrix: Annotated[str | None, Option(help="diagonal, projected or full.")] = None,
    warp_dim: Annotated[int | None, Option(help="Dimension of the warped space.")] = None,
    inputs: Annotated[str | None, Option(help="standardised or normal-scores.")] = None,
    kernel: Annotated[str | None, Option(help="rbf, matern12, matern32 or matern52.")] = None,
    n_members: Annotated[int | None, Option(help="Number of models of each kind.")] = None,
    output_warp: Annotated[str | None, Option(help="none, sinh-arcsinh or tanh.")] = None,
    n_output_terms: Annotated[int | None, Option(help="Terms of the output warp.")] = None,
    noise: Annotated[str | None, Option(help="constant or input-dependent.")] = None,
    objective: Annotated[str | None, Option(help="map, evidence or leave-one-out.")] = None,
    max_iter: Annotated[int | None, Option(help="Number of training steps.")] = None,
    growing: Annotated[
        bool | None, Option(help="One model by features: use few rows in the first steps.")
    ] = None,
    learning_rate: Annotated[float | None, Option(help="Largest step of the schedule.")] = None,
    length_scale: Annotated[
        float | None, Option(help="Start of the length-scales, in spreads of the inputs.")
    ] = None,
    dtype: Annotated[str | None, Option(help="float64 or float32.")] = None,
    device: options.Device = "auto",
    random_state: Annotated[
        int | None, Option(help="Integer seed, for reproducible results.", min=0, max=2**32 - 1)
    ] = None,
    memory: options.Memory = "2GiB",
    checkpoints: Annotated[Path | None, Option(help="Folder in which to save checkpoints.")] = None,
    every: Annotated[int, Option(help="Steps from one checkpoint to the next.")] = 10,
    resume: Annotated[bool, Option(help="Continue from the checkpoint, if there is one.")] = False,
    include_rows: Annotated[
        bool, Option(help="Write the rows that members which predict by neighbours need.")
    ] = True,
    time_limit: Annotated[float | None, Option(help="About how many seconds it may take.")] = None,
    timeout: options.Timeout = 1800.0,
    verbose: Annotated[bool, Option(help="Show progress.")] = True,
) -> None:
    """Learn to predict one column of a table from the others.

    Settings that are not given are chosen from the data. With --depth or --n-neighbors, one model
    is trained in place of the ensemble, and settings that are not given have their defaults.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    with (
        user_errors(),
        stop_on_interrupt() as interruption,
        options.join_launched(timeout, device) as processes,
    ):
        with processes.shared_errors():
            if processes.is_first:
                options.check_model_output(out, [table], force=force)
        if resume and checkpoints is None:
            raise UserError("--resume needs the folder of the checkpoint: give --checkpoints.")
        import torch

        from sswim.members.checkpoints import Checkpoints
        from sswim.tables import open_source

        saved = None if checkpoints is None else Checkpoints(checkpoints, every, resume)
        columns = given["coordinates"] = options.split_coordinates(coordinates)
        regressor = _make_estimator(given).set_params(callback=interruption)
        source = open_source(
            table,
            target,
            drop=drop or (),
            text=text or (),
            coordinates=columns,
            drop_missing=drop_missing,
            drop_missing_target=drop_missing_target,
            memory=as_bytes(memory),
            dtype=torch.float32 if dtype == "float32" else torch.float64,
            csv=options.csv_options(separator, decimal, encoding, header, keep_index),
            processes=processes,
        )
        if processes.is_first:
            say_left_out(source.n_left_out, source.n_rows or 0)
        limits: dict[str, Any] = {"memory": memory, "time_limit": time_limit}
        regressor.fit(source, checkpoints=saved, processes=processes, **limits)
        with processes.shared_errors():
            if processes.is_first:
                save_somewhere(lambda path: regressor.save(path, include_rows=include_rows), out)
        stopped = processes.any(interruption.stopped)
        if saved is not None and not stopped:
            saved.remove()
        if stopped and processes.is_first:
            say(messages, f"Training was stopped after {regressor.n_iter_} steps.")
        if processes.is_first:
            n_rows = round(regressor.n_samples_seen_)
            say(output, f"Learnt {target!r} from {n_rows} rows and wrote {out}.")
    if stopped:
        raise typer.Exit(STOPPED)


def _make_estimator(given: dict[str, Any]) -> BaseRegressor:
    """Make the estimator that the given options ask for."""
    from sswim.estimator.settings import all_estimators, make_estimator

    known = {name for kind in all_estimators() for name in kind._get_param_names()}
    try:
        return make_estimator(**{name: given[name] for name in given if name in known})
    except TypeError as error:
        raise UserError(
            f"{error} The option --depth chooses WarpedGPRegressor, --n-neighbors "
            "NeighbourGPRegressor."
        ) from error
