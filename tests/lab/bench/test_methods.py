"""Methods by their names: settings, versions and libraries."""

from __future__ import annotations

import sys

import pytest

from sswim.lab.bench.methods import ABLATIONS, METHODS, require_method, versions
from sswim.lab.peers.protocol import Method
from sswim.lab.peers.sswim_method import SSWIM


@pytest.mark.parametrize("name", METHODS)
def test_methods_have_settings_and_versions(name: str) -> None:
    method = require_method(name)
    assert isinstance(method, Method)
    assert method.device("cpu") == "cpu"
    if isinstance(method, SSWIM):
        assert len(method.settings()) == (1 if name in ABLATIONS else 0)
    else:
        assert method.settings()
    assert all(library in versions(method) for library in ("sswim 0", *method.libraries))
    most = {"exact-gp": 5000, **dict.fromkeys(("gp", "bwgp", "mlwgp3", "mlwgp20"), 5000)}
    assert method.max_rows == most.get(name)


def test_an_unknown_method_raises() -> None:
    with pytest.raises(ValueError, match=r"must be one of sswim, .*mlwgp20\. Got 'xgboost'"):
        require_method("xgboost")


@pytest.mark.parametrize("name", ["lightgbm", "catboost", "exact-gp"])
def test_a_missing_library_raises(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = METHODS[name].libraries[0]
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ValueError, match=rf"needs {library}, .* pip install sswim\[peers\]"):
        require_method(name)
