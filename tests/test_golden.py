"""Golden sentences: what is compared, what is written, and that a changed one is noticed."""

import pytest

import golden
from golden import FOLDER, expect_error, natural, owner_of, plain, read, speakers
from regard.errors import ConfigError, UserError

pytest_plugins = ["pytester"]

SUITE = """
import pytest
from golden import expect_error, golden
from regard.errors import ConfigError

@pytest.mark.parametrize("width", [3, 5])
def test_width(width, tmp_path):
    with expect_error(ConfigError, key="model.width"):
        raise ConfigError(f"{tmp_path}: width={width} is odd", key="model.width")

def test_words():
    golden("one\\n\\n  two ")
    golden("another")
"""
"""A suite of two tests that say four sentences."""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder of its own, with the plugin and a suite; its lists lie there too."""
    pytester.makepyfile(golden=(FOLDER.parent / "golden.py").read_text())
    pytester.makeconftest('pytest_plugins = ["golden"]')
    pytester.makepyfile(test_sizes=SUITE)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take longer than the suite
    monkeypatch.setenv("PYTHONPATH", f"{FOLDER.parents[1] / 'src'}:{pytester.path}")
    return pytester


def lists(suite: pytest.Pytester) -> str:
    return (suite.path / "golden" / "sizes.txt").read_text()


def run(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    return suite.runpytest_subprocess("-q", "-p", "xdist", "-p", "no:cacheprovider", *options)


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "two"])
def test_what_is_written_is_then_the_same(suite, workers):
    run(suite, "--golden", "write", *workers).assert_outcomes(passed=3)
    assert lists(suite) == (
        "# What tests/test_sizes.py provokes. Written by `make golden`: never by hand.\n"
        "\ntest_width[3]\n    TMP: width=3 is odd\n"
        "\ntest_width[5]\n    TMP: width=5 is odd\n"
        "\ntest_words\n    one\n\n      two\n"
        "\ntest_words (2)\n    another\n"
    )
    run(suite, *workers).assert_outcomes(passed=3)


def test_other_words_turn_a_test_red_until_they_are_written(suite):
    run(suite, "--golden", "write")
    suite.makepyfile(test_sizes=SUITE.replace("is odd", "is not even"))
    red = run(suite)
    red.assert_outcomes(passed=1, failed=2)
    red.stdout.fnmatch_lines(["*TMP: width=3 is not even*", "*If the new words are meant*"])
    run(suite, "--golden", "write").stdout.fnmatch_lines(["sizes: 4 kept, 0 new, 2 other, 0 stale"])
    run(suite).assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('odd", key="model.width"', 'odd", key="model.depth"'),
        ("raise ConfigError(f", "raise type('Other', (ConfigError,), {})(f"),
        ("raise ConfigError(f", "raise ValueError if width else ConfigError(f"),
    ],
    ids=["key", "kind of ours", "kind"],
)
def test_an_error_of_another_type_or_key_is_red_even_where_lists_are_written(suite, before, after):
    assert before in SUITE
    suite.makepyfile(test_sizes=SUITE.replace(before, after))
    run(suite, "--golden", "write").assert_outcomes(passed=1, failed=2)


def test_a_sentence_that_is_not_kept_is_red(suite):
    run(suite).assert_outcomes(failed=3)


def test_what_no_test_says_any_more_is_named_and_taken_out(suite):
    run(suite, "--golden", "write")
    fewer = SUITE.replace("[3, 5]", "[3]").replace('golden("another")', "pass")
    suite.makepyfile(test_sizes=fewer)
    done = run(suite, "--golden", "write")
    done.stdout.fnmatch_lines(
        [
            "sizes: 2 kept, 0 new, 0 other, 2 stale",
            "  stale, and taken out: test_width[[]5]",
            "  stale, and taken out: test_words (2)",
        ]
    )
    assert "another" not in lists(suite)


@pytest.mark.parametrize("some", ["-ktest_words", "test_sizes.py::test_words"])
def test_a_part_of_the_tests_writes_its_part_alone(suite, some):
    run(suite, "--golden", "write")
    before = lists(suite)
    suite.makepyfile(test_sizes=SUITE.replace('"another"', '"a third"').replace("odd", "even"))
    run(suite, "--golden", "write", some)
    assert lists(suite) == before.replace("another", "a third")


def test_a_test_that_fails_or_is_skipped_keeps_what_it_said_before(suite):
    run(suite, "--golden", "write")
    before = lists(suite)
    suite.makepyfile(test_sizes=SUITE.replace('golden("one', 'pytest.skip("")\n    golden("one'))
    run(suite, "--golden", "write").assert_outcomes(passed=2, skipped=1)
    assert lists(suite) == before
    suite.makepyfile(test_sizes=SUITE.replace('golden("one', 'assert 0\n    golden("one'))
    run(suite, "--golden", "write").assert_outcomes(passed=2, failed=1)
    assert lists(suite) == before


def test_folders_and_versions_are_left_out(tmp_path):
    assert plain(f"{tmp_path}/own.csv, line 3 ") == "TMP/own.csv, line 3"
    assert plain(f"{FOLDER.parent}: torch 2.11.0+cpu has none") == (
        "REPOSITORY/tests: torch VERSION has none"
    )
    assert plain("7 MB of 12", vary=r"\d+ MB") == "… of 12"


def test_tests_that_call_a_function_that_speaks_are_known():
    source = """
def said(): golden("a")
def pytest_fixture(said): said()
def test_a(): said()
def test_b(pytest_fixture): pass
def test_c(): pass
def test_d():
    with expect_error(ValueError): f()
"""
    assert speakers(source) - {"golden", "expect_error"} == {
        *("said", "pytest_fixture", "test_a", "test_b", "test_d")
    }


def test_names_are_in_the_order_of_their_numbers():
    assert sorted(["a[10]", "a[9]", "a[9] (2)", "b"], key=natural) == [
        *("a[9]", "a[9] (2)", "a[10]", "b")
    ]


def test_an_error_that_does_not_come_is_told():
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"), expect_error(UserError):
        pass


def test_a_field_is_compared_and_a_file_by_its_name():
    error = ConfigError("no", key="a.b", value=3, file="/somewhere/own.toml")
    with pytest.raises(AssertionError), expect_error(ConfigError, key="a.c"):
        raise error
    with pytest.raises(AssertionError), expect_error(ConfigError, file="other.toml"):
        raise error
    with expect_error(ConfigError, key="a.b", value=3, file="own.toml"):
        raise error


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_each_list_is_of_a_file_of_tests_and_names_tests_that_are_there(path):
    source = (FOLDER.parent / f"test_{path.stem}.py").read_text()
    entries = read(path.stem)
    assert entries and all(entries.values())
    for name in entries:
        test = owner_of(name).partition("[")[0].rpartition("::")[2]
        assert f"def {test}(" in source, f"no test says {name}: run make golden"


def test_every_list_is_as_it_would_be_written(monkeypatch, tmp_path):
    monkeypatch.setattr(golden, "FOLDER", tmp_path)
    for path in sorted((FOLDER).glob("*.txt")):
        golden.write(path.stem, read(path.stem))
        assert (tmp_path / path.name).read_text() == path.read_text(), "run make golden"
