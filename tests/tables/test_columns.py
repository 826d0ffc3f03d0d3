from __future__ import annotations

import datetime
import zoneinfo
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sswim.tables import (
    CategoryColumn,
    Column,
    IgnoredColumn,
    NumberColumn,
    SphereColumn,
    TableError,
    TimeColumn,
    UnknownCategoryWarning,
    UnreadableValueWarning,
)
from sswim.tables.columns import CYCLES, centre_of

NEW_YEAR = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
ALL_CYCLES = tuple(CYCLES)
NAN = np.nan


def encode(column: Column, values: Any) -> Any:
    values = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    found = column.encode(values)
    assert found.shape == (len(values), len(column.inputs))
    return found


def same(found: Any, expected: Any) -> bool:
    return np.array_equal(found, np.array(expected, dtype=float), equal_nan=True)


@pytest.mark.parametrize(
    "values",
    [
        *(
            pa.array([3, 0, None], dtype)
            for dtype in (pa.int8(), pa.uint64(), pa.float32(), pa.float64())
        ),
        pa.array(np.array([3, 0, np.nan], np.float16)),
        *(
            pa.array([Decimal("3.00"), Decimal(0), None], dtype)
            for dtype in (pa.decimal128(5, 2), pa.decimal256(50, 2))
        ),
        *(pa.array([3, 0, None], pa.duration("s")).cast(pa.duration(u)) for u in ("s", "ms", "ns")),
        pa.array(["3", "0.", None]),
        pa.array(["3", " 0 ", None], pa.string_view()).cast(pa.large_string()),
    ],
    ids=lambda values: str(values.type),
)
def test_numbers_of_every_type_become_float64(values: Any) -> None:
    found = encode(NumberColumn("x"), values)
    assert found.dtype == np.float64
    assert same(found, [[3], [0], [NAN]])
    with_indicator = NumberColumn("x", has_missing=True)
    assert with_indicator.inputs == ["x", "x is missing"]
    assert same(encode(with_indicator, values), [[3, 0], [0, 0], [NAN, 1]])


def test_infinite_numbers_are_refused() -> None:
    message = r"finite. Got 2 infinite values in column 'x'; correct or remove"
    for values in (pa.array([1.0, np.inf, -np.inf]), pa.array(["1", "1e400", "-1e400"])):
        with pytest.raises(TableError, match=message):
            encode(NumberColumn("x"), values)


def test_a_column_without_values_has_only_missing_ones() -> None:
    for column in (
        NumberColumn("x", has_missing=True),
        TimeColumn("x", has_missing=True, cycles=("day",)),
        TimeColumn("x", has_missing=True, cycles=("day",), zone="Europe/Berlin"),
        TimeColumn("x", has_missing=True, cycles=("day",), is_time_of_day=True),
    ):
        found = encode(column, pa.nulls(2))
        assert np.isnan(found[:, :-1]).all()
        assert (found[:, -1] == 1).all()
    category = CategoryColumn("x", has_missing=True, levels=("a", "b"))
    assert same(encode(category, pa.nulls(1)), [[0, 0, 1]])
    assert encode(IgnoredColumn("x", "it has no values"), pa.nulls(2)).shape == (2, 0)


def test_text_among_numbers_is_missing_with_a_warning_unless_it_was_in_fit() -> None:
    column = NumberColumn("x", has_missing=True, text_format=",.", markers=("?",))
    values = pa.array(["1.234,5", "?", "?", None])
    assert same(encode(column, values), [[1234.5, 0], [NAN, 1], [NAN, 1], [NAN, 1]])
    with pytest.warns(UnreadableValueWarning) as caught:
        found = encode(column, pa.array(["1,5", "?", "no", "1,234.5", "no"]))
    assert same(found[:, 0], [1.5, NAN, NAN, NAN, NAN])
    (warning,) = caught
    assert "'x' must hold numbers. Got 3 other values, 'no', '1,234.5'" in str(warning.message)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        (NumberColumn("x"), pa.array([1], pa.date32()), "must hold numbers. Got type date32"),
        (NumberColumn("x"), pa.array(["a"]).dictionary_encode(), "numbers. Got type dictionary"),
        (NumberColumn("x"), pa.array([[1]]), "must hold numbers. Got type list"),
        (NumberColumn("x"), pa.array(["a", None, "b"]), "must hold numbers. Got text: 'a', 'b'"),
        (TimeColumn("x"), pa.array(["a", "b"]), "must hold dates or times. Got text: 'a', 'b'"),
        (TimeColumn("x"), pa.array([1]), "must hold dates or times. Got type int64"),
        (CategoryColumn("x", levels=("a",)), pa.array([[1]]), "must hold text. Got type list"),
        (TimeColumn("x"), pa.array([1], pa.time32("s")), "times without a time zone"),
        (
            TimeColumn("x", is_time_of_day=True),
            pa.array([1], pa.timestamp("s")),
            "times of a day, without a date, as in the rows that were learnt. Got type timestamp",
        ),
        (TimeColumn("x", zone="UTC"), pa.array([1], pa.timestamp("s")), "times with a time zone"),
        (TimeColumn("x"), pa.array([1], pa.timestamp("s", "UTC")), "times without a time zone"),
        (TimeColumn("x", zone="UTC"), pa.array([1], pa.date32()), "times with a time zone"),
        (TimeColumn("x"), pa.array([1], pa.timestamp("s", "No")), "must be known. Got 'No'"),
    ],
)
def test_a_column_that_has_changed_its_kind_is_refused(
    column: Column, values: Any, message: str
) -> None:
    with pytest.raises(TableError, match=f"[Cc]olumn 'x' .*{message}"):
        encode(column, values)


@pytest.mark.parametrize(
    "dtype",
    [
        pa.date32(),
        pa.date64(),
        *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
        *(pa.timestamp(unit, "UTC") for unit in ("s", "ms", "us", "ns")),
        pa.timestamp("ns", "Australia/Sydney"),
        pa.timestamp("us", "+05:30"),
    ],
    ids=str,
)
def test_times_become_seconds_since_1970(dtype: Any) -> None:
    before = datetime.datetime(1969, 12, 31, tzinfo=datetime.UTC)
    zone = getattr(dtype, "tz", None) or ""
    found = encode(TimeColumn("x", zone=zone), pa.array([NEW_YEAR, None, before], dtype))
    assert same(found, [[NEW_YEAR.timestamp()], [NAN], [-86400.0]])


def phases(found: Any, cycle: int) -> Any:
    """Return the place within a cycle, from 0 to 1, of encoded times."""
    cosine, sine = found[:, 1 + 2 * cycle], found[:, 2 + 2 * cycle]
    assert np.allclose(np.hypot(cosine, sine), 1.0)
    return np.mod(np.arctan2(sine, cosine) / (2 * np.pi), 1.0)


def circular(difference: Any) -> Any:
    """Return how far phases are apart, at most one half."""
    return np.abs(np.mod(difference + 0.5, 1.0) - 0.5)


def assert_phases_of_calendar(found: Any, local: list[datetime.datetime]) -> None:
    """Compare encoded times with the calendar of Python."""
    day = np.array([(t.hour * 3600 + t.minute * 60 + t.second) / 86_400 for t in local])
    assert circular(phases(found, 0) - day).max() < 1e-9
    thursday = np.array([(t.weekday() - 3) % 7 for t in local])  # 1970-01-01 was a Thursday
    assert circular(phases(found, 1) - (thursday + day) / 7).max() < 1e-9
    year = (np.array([t.timetuple().tm_yday - 1 for t in local]) + day) / 365.2425
    assert circular(phases(found, 2) - year).max() < 1.6 / 365  # leap years move the year by a day


def test_cycles_are_those_of_the_calendar() -> None:
    random = np.random.default_rng(0)
    seconds = random.integers(-3 * 10**9, 6 * 10**9, 500)
    found = encode(TimeColumn("x", cycles=ALL_CYCLES), pa.array(seconds, pa.timestamp("s")))
    epoch = datetime.datetime(1970, 1, 1)
    local = [epoch + datetime.timedelta(seconds=int(each)) for each in seconds]
    assert_phases_of_calendar(found, local)


@pytest.mark.parametrize(
    ("zone", "unit"),
    [("Europe/Berlin", "s"), ("America/New_York", "ms"), ("Asia/Kolkata", "us"), ("UTC", "ns")],
)
def test_cycles_are_those_of_the_local_time_through_changes_of_the_clock(
    zone: str, unit: str
) -> None:
    """All hours of 2020, with a night of 23 and one of 25 hours, by Python's own time zones."""
    place = zoneinfo.ZoneInfo(zone)
    start = int(NEW_YEAR.timestamp())
    utc = start + 1800 * np.arange(2 * 24 * 366)
    values = pa.array(utc, pa.timestamp("s", "UTC")).cast(pa.timestamp(unit, zone))
    column = TimeColumn("x", cycles=ALL_CYCLES, zone=zone)
    found = encode(column, values)
    local = [datetime.datetime.fromtimestamp(int(each), place) for each in utc]
    assert np.array_equal(found[:, 0], utc)
    assert_phases_of_calendar(found, local)
    elsewhere = values.cast(pa.timestamp(unit, "Asia/Tokyo"))  # the same moments
    assert np.array_equal(encode(column, elsewhere), found)


def test_times_of_a_day_have_phases_only() -> None:
    column = TimeColumn("x", cycles=("day",), is_time_of_day=True)
    assert column.inputs == ["x cos day", "x sin day"]
    times = [datetime.time(0), datetime.time(6), datetime.time(12), datetime.time(18), None]
    expected = np.array([[1, 0], [0, 1], [-1, 0], [0, -1], [NAN, NAN]])
    for dtype in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        assert np.allclose(encode(column, pa.array(times, dtype)), expected, equal_nan=True)


def test_times_that_are_text_are_read_by_their_format() -> None:
    column = TimeColumn("x", has_missing=True, text_format="%d.%m.%Y")
    with pytest.warns(UnreadableValueWarning, match=r"dates or times. Got 1 other values, '2020-"):
        found = encode(column, pa.array(["01.01.2020", None, "2020-01-01"]))
    assert same(found, [[NEW_YEAR.timestamp(), 0], [NAN, 1], [NAN, 1]])
    marked = TimeColumn("x", text_format="%d.%m.%Y", markers=("never",))
    assert same(encode(marked, pa.array(["01.01.2020", "never"])), [[NEW_YEAR.timestamp()], [NAN]])
    column = TimeColumn("x", zone="UTC", text_format="ISO 8601 with offset")
    found = encode(column, pa.array(["2020-01-01T02:00+02:00"]))
    assert same(found, [[NEW_YEAR.timestamp()]])
    for dtype in (pa.timestamp("us", "UTC"), pa.timestamp("s", "Asia/Tokyo")):
        assert same(encode(column, pa.array([NEW_YEAR], dtype)), found)


def test_names_of_times_say_cycle_and_wave() -> None:
    column = TimeColumn("t", has_missing=True, cycles=("day", "year"))
    waves = ["t cos day", "t sin day", "t cos year", "t sin year"]
    assert column.inputs == ["t", *waves, "t is missing"]


def test_a_category_has_an_indicator_for_each_level() -> None:
    column = CategoryColumn("x", levels=("a", "b", "c"))
    assert column.inputs == ["x=a", "x=b", "x=c"]
    with pytest.warns(UnknownCategoryWarning) as caught:
        found = encode(column, pa.array(["b", "a", None, "p", "c", *"qprstu"]))
    nothing = [NAN, NAN, NAN]
    assert same(found, [[0, 1, 0], [1, 0, 0], *[nothing] * 2, [0, 0, 1], *[nothing] * 6])
    (warning,) = caught
    assert str(warning.message) == (
        "Column 'x' has levels that the model has not learnt in 7 rows: 'p', 'q', 'r', 's', 't' "
        "and 1 more. They count as missing there."
    )


def test_indicators_of_two_rare_missing_and_numeric_levels() -> None:
    column = CategoryColumn("x", levels=("a", "b"))
    assert column.inputs == ["x=b"]
    assert same(encode(column, pa.array(["b", "a", None])), [[1], [0], [NAN]])
    column = CategoryColumn("x", levels=("a", "b"), has_other=True)
    assert column.inputs == ["x=a", "x=b", "x other"]
    found = encode(column, pa.array(["b", "rare", None]))
    assert same(found, [[0, 1, 0], [0, 0, 1], [NAN, NAN, NAN]])
    column = CategoryColumn("x", has_missing=True, levels=("a", "b"))
    assert column.inputs == ["x=a", "x=b", "x is missing"]
    assert same(encode(column, pa.array(["b", None])), [[0, 1, 0], [0, 0, 1]])
    with pytest.warns(UnknownCategoryWarning):
        assert same(encode(column, pa.array(["c"])), [[NAN, NAN, 0]])
    both = CategoryColumn("x", has_missing=True, levels=("a", "b"), has_other=True)
    assert same(encode(both, pa.array(["c", None])), [[0, 0, 1, 0], [0, 0, 0, 1]])
    for values in (pa.array([1, 2, 1]), pa.array([1.0, 2.0, 1.0]).dictionary_encode()):
        assert same(encode(CategoryColumn("x", levels=("1", "2")), values), [[0], [1], [0]])


LONGITUDES = st.floats(-180, 180)
LATITUDES = st.floats(-90, 90)


def some_points(n: int = 200, seed: int = 0) -> tuple[Any, Any]:
    """Draw points that are spread evenly over the sphere, with both poles and the date line."""
    random = np.random.default_rng(seed)
    longitude = random.uniform(-180, 180, n)
    latitude = np.degrees(np.arcsin(random.uniform(-1, 1, n)))
    longitude[:4], latitude[:4] = [180, -180, 0, 77], [10, 10, 90, -90]
    return longitude, latitude


def great_circle(longitude: Any, latitude: Any) -> Any:
    """Return the angles between all points, by the haversine formula."""
    east, north = np.radians(longitude), np.radians(latitude)
    half = np.sin((north[:, None] - north) / 2) ** 2
    half += np.cos(north[:, None]) * np.cos(north) * np.sin((east[:, None] - east) / 2) ** 2
    return 2 * np.arcsin(np.sqrt(np.clip(half, 0, 1)))


def distances(x: Any) -> Any:
    return np.linalg.norm(x[:, None] - x, axis=-1)


@pytest.mark.parametrize("centre", [(0.0, 0.0), (179.9, 0.0), (-70.0, 35.0), (10.0, 90.0)])
def test_distances_are_chords_of_great_circles(centre: tuple[float, float]) -> None:
    """A chord of an angle a has the length 2 sin(a / 2), wherever the sphere is seen from."""
    longitude, latitude = some_points()
    found = SphereColumn("lon", "lat", centre).encode(longitude, latitude)
    assert np.allclose(np.linalg.norm(found, axis=1), 1.0)
    expected = 2 * np.sin(great_circle(longitude, latitude) / 2)
    assert np.allclose(distances(found), expected, atol=1e-12)
    turns = np.arange(len(longitude)) % 7 - 3  # whole turns change nothing
    turned = SphereColumn("lon", "lat", centre).encode(longitude + 360 * turns, latitude)
    assert np.allclose(found, turned, atol=1e-12)


@given(longitude=LONGITUDES, latitude=LATITUDES)
def test_the_centre_is_straight_up_and_axes_point_east_and_north(
    longitude: float, latitude: float
) -> None:
    column = SphereColumn("lon", "lat", (longitude, latitude))
    step = 1e-3
    nearer = latitude - np.sign(latitude) * step  # not beyond a pole
    here, east, north = column.encode(
        np.array([longitude, longitude + step, longitude]),
        np.array([latitude, latitude, nearer]),
    )
    assert np.allclose(here, [0, 0, 1], atol=1e-12)
    wide = np.radians(step) * np.cos(np.radians(latitude))
    assert east[0] == pytest.approx(wide, rel=1e-6, abs=1e-15)
    assert abs(east[1]) < 1e-9
    assert north[1] == pytest.approx(np.radians(nearer - latitude), rel=1e-6)
    assert abs(north[0]) < 1e-12


def test_the_centre_is_the_middle_of_known_points() -> None:
    nothing = np.array([np.nan, np.nan])
    assert centre_of(nothing, nothing) == (0.0, 0.0)
    known = centre_of(np.array([170.0, np.nan, -170.0, 5.0]), np.array([10.0, 3.0, 10.0, np.nan]))
    assert np.abs(known[0]) == pytest.approx(180.0)
    assert 10.0 < known[1] < 11.0  # a great circle passes north of the parallel
    longitude, latitude = some_points(5000)
    assert centre_of(longitude, latitude) == (0.0, 0.0)  # points all around have no middle


def test_degrees_may_be_missing_and_latitudes_are_at_most_90() -> None:
    sphere = SphereColumn("east", "south")
    found = sphere.encode(np.array([np.nan, 1.0, 1.0]), np.array([1, np.nan, 1.0]))
    assert np.isnan(found[:2]).all()
    assert np.isfinite(found[2]).all()
    with pytest.raises(TableError, match=r"from −90 to 90. Got 2 others in column 'south'; .*name"):
        sphere.encode(np.zeros(4), np.array([-90.0, 90.1, -100.0, np.nan]))
