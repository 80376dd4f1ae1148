"""Other libraries' flags against the fields that the tasks have today, not against a list of them.

The list of flags, with how often each is used, is in test_usual_names.py.
"""

import inspect
import re
from functools import cache

import pytest

from regard.config import names_in
from regard.errors import UserError
from regard.runs.run import train
from regard.tasks import TASKS
from regard.usual_names import answer_flag
from test_usual_names import NOTHING, USES, is_accepted, listed


@cache
def flags(task: str) -> frozenset[str]:
    """Full names, their last parts where those are clear, and the options of `regard train`."""
    full = list(names_in(TASKS[task].load_config()))
    options = inspect.signature(train).parameters
    short = set()
    for name in full:
        table, _, last = name.rpartition(".")
        if last == "name" and table:
            short.add(table.rpartition(".")[2])
        elif sum(f".{each}".endswith(f".{last}") for each in full) == 1:
            short.add(last)
    words = {*full, *short, *options, "seed", "vocab_size", "tensorboard"}
    return frozenset(f"--{word.replace('_', '-')}" for word in words)


@pytest.mark.parametrize(("library", "flag"), listed(USES))
def test_a_flag_of_another_library_is_accepted_or_answered_with_a_field_of_today(library, flag):
    found = {
        task: "accepted" if is_accepted(flag, set(flags(task))) else answer_flag(flag, flags(task))
        for task in TASKS
    }
    named = {task: said for task, said in found.items() if said and "there is no" not in said}
    assert named, f"{flag} of {library}: {found}"
    for task, said in named.items():
        if said != "accepted":
            meant = re.fullmatch(rf"{flag} is called (--[\w.-]+) here(: .+)?", said)
            assert meant is not None and meant[1] in flags(task), said


@pytest.mark.parametrize(("library", "flag"), listed(NOTHING))
def test_a_flag_for_which_there_is_nothing_is_answered(library, flag):
    assert any(answer_flag(flag, flags(task)) for task in TASKS), f"{flag} of {library}"


@pytest.mark.parametrize(
    ("keywords", "sentence"),
    [
        ({"learning_rate": 1e-3}, r"learning_rate is called (train\.optimizer\.)?lr here"),
        ({"num_train_epochs": 3}, "num_train_epochs is called epochs here"),
        ({"output_dir": "x"}, "output_dir is called out here"),
        ({"model": {"n_embd": 64}}, r"model\.n_embd is called model\.width here"),
        ({"train": {"max_steps_": 1}}, r"there is no train\.max_steps_; \[train\] has: epochs, .*"),
    ],
)
def test_a_keyword_of_another_library_is_answered_before_anything_is_trained(
    keywords, sentence, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"^{sentence}$"):
        train("classify", **keywords)
    assert list(tmp_path.iterdir()) == []
