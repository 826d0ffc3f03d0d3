from __future__ import annotations

from sswim.files.sealed_files import differences


def test_differences_are_named_at_any_depth() -> None:
    ours = {"a": 1, "b": {"c": 2, "d": [3]}, "e": 4}
    assert differences(ours, ours) == []
    theirs = {"a": 1, "b": {"c": 5, "d": [3, 4]}, "f": 6}
    assert differences(theirs, ours) == [
        "b.c is 5, not 2",
        "b.d is [3, 4], not [3]",
        "f is 6, not None",
        "e is None, not 4",
    ]


def test_a_mapping_in_place_of_a_value_is_one_difference() -> None:
    assert differences({"a": {"b": 1}}, {"a": 2}) == ["a is {'b': 1}, not 2"]


def test_empty_mappings_do_not_differ() -> None:
    assert differences({}, {}) == []
