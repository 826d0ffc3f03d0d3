"""The command ``sswim info``."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from sswim.cli import options
from sswim.cli.console import cell, messages, output, print_facts, say, user_errors

if TYPE_CHECKING:
    from sswim.ensemble.plan import FittedKind
    from sswim.tables import TableDescription


def info(
    path: Annotated[
        Path, Argument(help="Model file that `sswim fit` wrote, or a table of any format.")
    ],
    text: options.KeepText = None,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    header: options.Header = None,
    keep_index: options.KeepIndex = False,
) -> None:
    """Show what a model file holds, or what would be read of a table."""
    with user_errors():
        from sswim.tables import has_table_suffix

        if not path.is_dir() and not has_table_suffix(path):
            _show_model(path)
            return
        from sswim.tables import describe_table

        csv = options.csv_options(separator, decimal, encoding, header, keep_index)
        _show_table(path, describe_table(path, csv, text or ()))


def _show_table(path: Path, table: TableDescription) -> None:
    """Print what would be read of a table."""
    from rich.table import Table

    rows = f"{table.n_rows:,} rows, {len(table.columns)} columns"
    printed = Table(title=cell(f"{path} ({table.form})\n{rows}"))
    for title in ("column", "kind", "values"):
        printed.add_column(title, overflow="fold")
    printed.add_column("missing", justify="right")
    printed.add_column("examples", overflow="fold")
    for column in table.columns:
        missing = f"{column.n_missing:,}" if column.n_missing else ""
        examples = "; ".join(column.examples)
        printed.add_row(*map(cell, (column.name, column.kind, column.values, missing, examples)))
    output.print(printed)
    for note in table.notes:
        say(messages, f"Note: {note}")


def _show_model(model: Path) -> None:
    """Print what a model file holds."""
    from sswim.estimator import load

    regressor = load(model)
    n_inputs = len(getattr(regressor, "input_names_", range(regressor.n_features_in_)))
    facts: dict[str, object] = {"estimator": type(regressor).__name__, "number of inputs": n_inputs}
    if hasattr(regressor, "table_schema_"):
        schema = options.table_schema(regressor)
        facts["target"] = schema.target
        facts["columns"] = ", ".join(f"{column.name} ({column.kind})" for column in schema.columns)
    facts["rows seen"] = f"{regressor.n_samples_seen_:,.10g}"
    facts["rows inside"] = "none"
    if regressor.keeps_rows_:
        facts["rows inside"] = "yes: the model predicts from the rows it was trained on"
        if not regressor.n_samples_seen_:
            facts["rows inside"] = "none: saved without them; partial_fit gives it rows"
    if hasattr(regressor, "log_marginal_likelihood_"):
        facts["log evidence"] = f"{regressor.log_marginal_likelihood_:.6g}"
    facts["training steps"] = regressor.n_iter_
    for kind in regressor.kinds_:
        facts[f"kind {kind.name}"] = _describe(kind)
    settings = regressor.get_params()
    if (recipe := settings.pop("recipe", None)) is not None:
        changed = (
            field for field in fields(recipe) if getattr(recipe, field.name) != field.default
        )
        settings |= {f"recipe: {field.name}": getattr(recipe, field.name) for field in changed}
    facts |= {name: settings[name] for name in settings if name not in ("callback", "verbose")}
    print_facts(output, str(model), facts)


def _describe(kind: FittedKind) -> str:
    """Say in one line what became of a kind of members."""
    members = "1 member" if kind.n_members == 1 else f"{kind.n_members} members"
    rows = f"{kind.n_neighbors} neighbours" if kind.n_neighbors else f"{kind.n_features} features"
    weight = f"weight {kind.weight:.3f}" if kind.weight else "left out"
    if kind.name == "mean":
        return f"{weight}; the mean of all rows, everywhere"
    warps = "1 warp" if kind.depth == 1 else f"{kind.depth} warps"
    return (
        f"{weight}; {members}, {rows}, {warps}, {kind.kernel}, inputs {kind.inputs}, "
        f"output warp {kind.output_warp}, {kind.n_steps} steps"
    )
