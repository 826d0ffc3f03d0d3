from __future__ import annotations

import pytest

from sswim.base.cholesky import FactorisationError
from sswim.base.validation import UserError, require_integer, require_level, require_restartable
from sswim.estimator.model_file import ModelFileError
from sswim.members.checkpoints import CheckpointError
from sswim.tables import TableError


@pytest.mark.parametrize("error", [UserError, TableError, CheckpointError, ModelFileError])
def test_mistakes_of_users_are_value_errors_of_one_class(error: type[Exception]) -> None:
    assert issubclass(error, UserError)
    assert issubclass(error, ValueError)


def test_a_failed_factorisation_is_not_a_mistake_of_the_user() -> None:
    assert not issubclass(FactorisationError, UserError)


def test_checks_of_arguments_raise_it() -> None:
    with pytest.raises(UserError, match="n must be an integer"):
        require_integer("n", 0, 1)
    with pytest.raises(UserError, match="level must lie between 0 and 1"):
        require_level(2.0)
    with pytest.raises(UserError, match="can be read once"):
        require_restartable(iter([1]))
