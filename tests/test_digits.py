"""The embedded digits are real, different, in a fixed order, and come without torch."""

import subprocess
import sys

import numpy as np
import pytest

from golden import expect_error
from regard.data.images import SPLITS
from regard.data.synthetic.digits import load_digits, read_digits


def test_digits_take_turns_and_no_two_are_the_same():
    images, labels = load_digits(16)
    assert labels.tolist() == [*range(10), *range(6)]
    assert images.shape == (16, 1, 8, 8) and images.dtype == np.float32
    assert len({image.tobytes() for image in images}) == 16
    assert images.min() == 0 and images.max() == 1


def test_fewer_digits_are_the_first_of_more():
    few, all_of_them = load_digits(16), load_digits()
    assert len(all_of_them.labels) == 1797
    np.testing.assert_array_equal(few.images, all_of_them.images[:16])


@pytest.mark.parametrize("count", [-1, 1798])
def test_digits_that_are_not_there_are_an_error(count):
    with expect_error(ValueError):
        load_digits(count)


def test_digits_are_divided_once_and_for_all():
    digits = read_digits()
    assert [len(digits[split]) for split in SPLITS] == [1259, 179, 359]
    assert all(np.ptp(np.bincount(digits[split].labels)) <= 10 for split in SPLITS)
    assert digits.train.images[0].shape == (1, 8, 8) and digits.train.images.pixels.max() == 255
    # Written down, because trained models and recorded figures depend on it.
    assert digits.digest.startswith("167511c06ff0fb4d")


def test_no_digit_is_in_two_splits():
    digits = read_digits()
    seen = [{image.tobytes() for image in digits[split].images.pixels} for split in SPLITS]
    assert sum(map(len, seen)) == len(set.union(*seen)) == 1797


def test_digits_need_no_torch():
    code = "import sys; from regard.data.synthetic.digits import load_digits; load_digits(1); "
    done = subprocess.run((sys.executable, "-c", code + "sys.exit('torch' in sys.modules)"))
    assert done.returncode == 0
