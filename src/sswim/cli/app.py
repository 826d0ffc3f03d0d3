"""The command ``sswim``."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.markup import escape
from rich.table import Table

from sswim.base.byte_size import as_bytes
from sswim.base.devices import resolve_device
from sswim.base.files import require_folder
from sswim.base.version import __version__
from sswim.cli.bench import app as bench
from sswim.cli.console import messages, output, say, user_errors
from sswim.cli.datasets import datasets
from sswim.cli.reproduce import reproduce
from sswim.distributed.processes import Processes, join_processes, local_device
from sswim.estimator.evaluation import evaluate as evaluate_rows
from sswim.estimator.evaluation import evaluate_tables
from sswim.estimator.prediction_columns import predicted_columns
from sswim.estimator.regressor import SSWIMRegressor
from sswim.estimator.table_prediction import predict_tables
from sswim.tables.open_tables import open_tables
from sswim.tables.schema import Column, Schema, require_complete
from sswim.tables.schema import drop_missing as drop_incomplete
from sswim.tables.table_io import (
    TableError,
    append_columns,
    read_table,
    require_writable_suffix,
    write_table,
)
from sswim.tables.table_parts import MemoryTables
from sswim.tables.table_source import TableSource, learn_source
from sswim.training.checkpoints import Checkpoints
from sswim.training.history import Step
from sswim.training.objective import OBJECTIVES

app = typer.Typer(
    help="Nonstationary probabilistic regression on tables.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(bench, name="bench")
app.command()(datasets)
app.command()(reproduce)

_defaults = SSWIMRegressor()

TablePath = Annotated[
    Path,
    typer.Argument(
        help="Parquet, CSV (also .csv.gz), Arrow or Feather; or a folder of Parquet or CSV files."
    ),
]
ModelPath = Annotated[Path, typer.Argument(help="A model that `sswim fit` wrote.")]
DropMissing = Annotated[bool, typer.Option(help="Leave rows with missing values out.")]
Memory = Annotated[
    str, typer.Option(help="What a process may hold; a larger table is read again for every pass.")
]
Timeout = Annotated[
    float, typer.Option(help="Seconds after which a process that does not answer is given up.")
]
Coverage = Annotated[float, typer.Option(help="Of the intervals, between 0 and 1.")]


@app.command()
def fit(
    table: TablePath,
    target: Annotated[str, typer.Option(help="The column to predict.")],
    out: Annotated[Path, typer.Option(help="Where to write the model.")],
    drop: Annotated[list[str] | None, typer.Option(help="A column to ignore; repeatable.")] = None,
    drop_missing: DropMissing = False,
    depth: Annotated[
        int | None, typer.Option(help="Train one model of so many warps, not the ensemble.")
    ] = None,
    n_components: Annotated[int | None, typer.Option(help="Fourier features.")] = None,
    n_pseudo: Annotated[int | None, typer.Option(help="Pseudo-points per warp.")] = None,
    warps: Annotated[str | None, typer.Option(help="joint or separate.")] = None,
    kernel: Annotated[str | None, typer.Option(help="rbf, matern12, matern32 or matern52.")] = None,
    n_members: Annotated[int | None, typer.Option(help="Models of each kind.")] = None,
    output_warp: Annotated[
        str | None,
        typer.Option(help="none, sinh-arcsinh or tanh: for skewed or heavy-tailed noise."),
    ] = None,
    n_output_terms: Annotated[
        int, typer.Option(help="Terms of the output warp.")
    ] = _defaults.n_output_terms,
    noise: Annotated[str | None, typer.Option(help="constant or input-dependent.")] = None,
    objective: Annotated[str | None, typer.Option(help=f"{', '.join(OBJECTIVES)}.")] = None,
    max_iter: Annotated[int | None, typer.Option(help="Training steps.")] = None,
    growing: Annotated[
        bool, typer.Option(help="Begin with few of the rows, where they are many and steps few.")
    ] = _defaults.growing,
    learning_rate: Annotated[
        float | None, typer.Option(help="The largest step of the schedule.")
    ] = None,
    length_scale: Annotated[
        float | None, typer.Option(help="Where length-scales start, in spreads of the inputs.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="float64 or float32.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, …")] = _defaults.device,
    random_state: Annotated[
        int | None, typer.Option(help="An integer for results that can be repeated.")
    ] = None,
    memory: Memory = "2GiB",
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder in which the training is kept as it goes.")
    ] = None,
    every: Annotated[int, typer.Option(help="Steps from one checkpoint to the next.")] = 10,
    resume: Annotated[
        bool, typer.Option(help="Go on with the checkpoint, if there is one.")
    ] = False,
    timeout: Timeout = 1800.0,
    quiet: Annotated[bool, typer.Option(help="No progress bar.")] = False,
) -> None:
    """Learn to predict a column of a table from the others.

    What is not given is chosen from the data.
    """
    names = _defaults.get_params()
    given = {name: value for name, value in locals().items() if name in names}
    settings = {name: value for name, value in given.items() if value is not None}
    with (
        user_errors(),
        _stop_on_interrupt() as interrupted,
        _joined(timeout, device) as processes,
    ):
        require_folder(out)
        if resume and checkpoint is None:
            raise ValueError("A fit is resumed from its folder: name it with --checkpoint.")
        checkpoints = None if checkpoint is None else Checkpoints(checkpoint, every, resume)
        source = _source(table, target, drop or [], drop_missing, memory, processes)
        regressor = SSWIMRegressor(**settings, verbose=not quiet, callback=interrupted)
        regressor.fit(source, memory=memory, checkpoints=checkpoints, processes=processes)
        with processes.shared_errors():
            if processes.is_first:
                regressor.save(out)
        if checkpoints is not None and not interrupted.stopped:
            checkpoints.remove()
        if interrupted.stopped:
            say(messages, f"Training ended after {regressor.n_iter_} steps.")
        if processes.is_first:
            n_rows = round(regressor.n_samples_seen_)
            say(output, f"Learnt {target!r} from {n_rows} rows and wrote {out}.")


@app.command()
def predict(
    model: ModelPath,
    table: TablePath,
    out: Annotated[Path, typer.Option(help="Where to write the table with its predictions.")],
    coverage: Coverage = 0.9,
    prefix: Annotated[str, typer.Option(help="Put before the names of the new columns.")] = "",
    drop_missing: DropMissing = False,
    memory: Memory = "2GiB",
    timeout: Timeout = 1800.0,
) -> None:
    """Add the columns mean, std, median, lower and upper to a table.

    A folder of files becomes a folder of Parquet files with the same names.
    """
    with user_errors(), _joined(timeout) as processes:
        regressor = SSWIMRegressor.load(model)
        schema = _schema(regressor)
        if processes.size > 1 or _is_large(table, memory):
            n_rows = predict_tables(
                regressor,
                schema,
                table,
                out,
                coverage=coverage,
                prefix=prefix,
                drop_missing=drop_missing,
                processes=processes,
                say=lambda text: say(messages, text),
            )
        else:
            require_writable_suffix(out)
            require_folder(out)
            rows = _complete(read_table(table), [c.name for c in schema.columns], drop_missing)
            columns = predicted_columns(regressor, schema.encode(rows), coverage)
            new = {prefix + name: values for name, values in columns.items()}
            write_table(append_columns(rows, new), out)
            n_rows = rows.num_rows
        if processes.is_first:
            say(output, f"Predicted {n_rows} rows and wrote {out}.")


@app.command()
def evaluate(
    model: ModelPath,
    table: TablePath,
    coverage: Coverage = 0.9,
    drop_missing: DropMissing = False,
    memory: Memory = "2GiB",
    timeout: Timeout = 1800.0,
) -> None:
    """Compare predictions with the target column of a table."""
    with user_errors(), _joined(timeout) as processes:
        regressor = SSWIMRegressor.load(model)
        schema = _schema(regressor)
        if processes.size > 1 or _is_large(table, memory):
            scores = evaluate_tables(regressor, schema, table, coverage, drop_missing, processes)
        else:
            names = [*(column.name for column in schema.columns), schema.target]
            rows = _complete(read_table(table), names, drop_missing)
            scores = evaluate_rows(regressor, schema.encode(rows), schema.targets(rows), coverage)
        if not processes.is_first:
            return
    _print_table(
        f"{model} on {scores.n_rows} rows of {table}",
        {
            "RMSE": f"{scores.rmse:.6g}",
            "MNLP": f"{scores.mnlp:.6g}",
            "R²": f"{scores.r2:.6g}",
            f"coverage of {coverage:.0%} intervals": f"{scores.coverage:.1%}",
        },
    )


@app.command()
def info(model: ModelPath) -> None:
    """Say what a model file holds."""
    with user_errors():
        regressor = SSWIMRegressor.load(model)
    facts: dict[str, Any] = {"inputs": regressor.n_features_in_}
    if hasattr(regressor, "table_schema_"):
        schema = _schema(regressor)
        facts["target"] = schema.target
        facts["columns"] = ", ".join(f"{c.name} ({c.kind})" for c in schema.columns)
    facts["rows seen"] = f"{regressor.n_samples_seen_:,.10g}"
    facts["log evidence"] = f"{regressor.log_marginal_likelihood_:.6g}"
    facts["training steps"] = regressor.n_iter_
    parameters = regressor.get_params()
    facts |= {name: parameters[name] for name in parameters if name not in ("callback", "verbose")}
    _print_table(str(model), facts)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder for the picture and the page.")] = Path(
        "demo"
    ),
) -> None:
    """Show what warps add on a signal with steps, a wave and a chirp."""
    from sswim.lab.demo import run_demo  # noqa: PLC0415 (no other command draws pictures)

    with user_errors():
        out.mkdir(parents=True, exist_ok=True)
        run_demo(out, output)


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Nonstationary probabilistic regression on tables."""
    if version:
        output.print(__version__)
        raise typer.Exit


def _source(
    path: Path,
    target: str,
    drop: list[str],
    drop_missing: bool,
    memory: str,
    processes: Processes,
) -> TableSource:
    """The rows of a table, which is read at once if it is small."""
    given = {"target": target, "drop": sorted(drop), "drop_missing": drop_missing}
    processes.require_same("command", {**given, "memory": as_bytes(memory)})
    with processes.shared_errors():
        if not _is_large(path, memory):
            rows = read_table(path)
            schema = Schema.learn(rows, target, drop)
            names = [*(column.name for column in schema.columns), target]
            rows = _complete(rows, names, drop_missing)
            require_complete(rows, names)
            return learn_source(MemoryTables(rows, str(path)), target, drop)
        tables = open_tables(path)
    return learn_source(tables, target, drop, drop_missing, processes)


def _is_large(path: Path, memory: str) -> bool:
    """Whether a table is not read at once."""
    limit = as_bytes(memory)
    return path.is_dir() or (path.is_file() and open_tables(path).nbytes > limit)


def _joined(timeout: float, device: str = "auto") -> AbstractContextManager[Processes]:
    """The processes that were started with this one."""
    return join_processes(local_device(resolve_device(device)), timedelta(seconds=timeout))


def _schema(regressor: SSWIMRegressor) -> Schema:
    """How the model reads tables; one fitted in Python reads numbers by their names."""
    if regressor.n_targets_ > 1:
        raise TableError(
            f"The command line predicts one target. Got a model of {regressor.n_targets_}; "
            "use it in Python, or fit one model for each target."
        )
    if hasattr(regressor, "table_schema_"):
        return Schema.from_dict(regressor.table_schema_)
    names = getattr(regressor, "feature_names_in_", None)
    if names is None:
        raise TableError(
            "The model must know the names of its columns. This one was fitted on arrays without "
            "names; fit it on a data frame, or with `sswim fit`."
        )
    return Schema("", tuple(Column(str(name), "number") for name in names))


def _complete(rows: pa.Table, names: list[str], drop: bool) -> pa.Table:
    """The rows, or those without missing values if others may be dropped."""
    if not drop:
        return rows  # encoding refuses missing values, and says where they are
    kept, mask = drop_incomplete(rows, names)
    if not mask.all():
        say(messages, f"Left out {(~mask).sum()} of {len(mask)} rows with missing values.")
    return kept


def _print_table(title: str, facts: dict[str, Any]) -> None:
    table = Table(title=escape(title), show_header=False)
    for name, value in facts.items():
        table.add_row(name, escape(str(value)))
    output.print(table)


class _Interrupted:
    """Whether training should end, asked after every step."""

    stopped = False

    def __call__(self, member: int, step: Step) -> bool:
        return self.stopped


@contextmanager
def _stop_on_interrupt() -> Iterator[_Interrupted]:
    """What to call after every step: Ctrl-C ends training after it, a second one everything."""
    interrupted = _Interrupted()
    previous = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: FrameType | None) -> None:
        interrupted.stopped = True
        signal.signal(signal.SIGINT, previous)
        say(messages, "Stopping after this step and keeping the best; Ctrl-C again to give up.")

    signal.signal(signal.SIGINT, stop)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, previous)
