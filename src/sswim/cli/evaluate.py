"""The command ``sswim evaluate``."""

from __future__ import annotations

from sswim.base.byte_size import as_bytes
from sswim.cli.console import output, print_facts, say_left_out, user_errors
from sswim.cli.models import load_model
from sswim.cli.options import Coverage, DropMissing, Memory, ModelPath, TablePath, Timeout
from sswim.cli.processes import join_launched


def evaluate(
    model: ModelPath,
    table: TablePath,
    coverage: Coverage = 0.9,
    drop_missing: DropMissing = False,
    memory: Memory = "2GiB",
    timeout: Timeout = 1800.0,
) -> None:
    """Compare predictions with the target column of a table."""
    from sswim.estimator.table_evaluation import evaluate_table

    with user_errors(), join_launched(timeout) as processes:
        regressor, schema = load_model(model)
        scores = evaluate_table(
            regressor, schema, table, coverage, drop_missing, processes, as_bytes(memory)
        )
        if not processes.is_first:
            return
    say_left_out(scores.n_left_out, scores.n_left_out + scores.n_rows)
    print_facts(
        output,
        f"{model} on {scores.n_rows} rows of {table}",
        {
            "RMSE": f"{scores.rmse:.6g}",
            "MNLP": f"{scores.mnlp:.6g}",
            "R²": f"{scores.r2:.6g}",
            f"coverage of {coverage:.0%} intervals": f"{scores.coverage:.1%}",
        },
    )
