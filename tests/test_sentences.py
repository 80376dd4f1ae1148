"""Sentences end where a reader ends them, and no word is lost on the way."""

import re
import subprocess
import sys
from itertools import pairwise
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.corpus import find_corpus, read_corpus
from regard.data.sentences import documents, paragraphs, split

ARTICLES = """
= Homarus gammarus =

Homarus gammarus , the lobster , is a species of <unk> . It may weigh 6 @.@ 5 kg . <unk> eat it .
He said : " It is blue . " " Red " is what it becomes .
Key : H. g.
= Played , W =

= = Life cycle = =

The eggs hatch at night .

= Mr. Smith ( 1995 film ) =

It was directed by J. P. Morgan of St. Louis , U.S. In 1996 it won an award .
"""
WIKITEXT = "".join(f" {line} \n" if line else " \n" for line in ARTICLES.splitlines())
SIGNS = (
    r"""Mr. U.S. He he I 5. 3.14 . ... ? ! " ' ( ) a.m. etc. end. end." (end.) No. <unk> é “ ”"""
)
PIECES = st.sampled_from([*SIGNS.split(), " ", "\n", "  "])
NO_SPACE = "。！？।"  # stops that need none behind them


@pytest.mark.parametrize(
    "sentences",
    [
        ["He left.", "She stayed."],
        ["Mr. Smith met Mrs. Jones and Dr. J. R. R. Tolkien in St. Louis.", "They talked."],
        ["See e.g. Smith et al. 1999, i.e. No. 5, pp. 3 and vol. 2.", "No.", "Never."],
        ["It is vs. Arsenal, c. 1920, on Jan. 5.", "It rained."],
        ["He is in the U.S. Army.", "She left the U.S.", "They met at 5 p.m.", "It rained."],
        ["He sold apples, pears, etc.", "The rest was lost.", "Smith, Jr. Jones and Co. paid."],
        ["Pi is 3.14 or so.", "It costs $ 1,000.50 today.", "See foo.py.", "3 of them left."],
        ["Well... perhaps.", "Wait…", "He waited."],
        ["What?!", "No!", "He left."],
        ['"Why?" she asked.', '"I do not know."', "He left."],
        ["(See below.)", "He left (in 1920.", "Unclosed"],
        ["He left (it was late. It rained) early.", "She stayed."],
        ["“Go.”", "‘Come!’", "«Non.»", "He left."],
        ["He said , ' I left . '", "She came ."],
        ["He said , \" I left . \"", '" Ice " is cold .', "She came ."],
        ['He asked " Why ? " and left .', "<unk> came .", "( He left . )", "She came ."],
        ["Woodward v. Comair was heard .", "U.S. Sugar won .", "It is at No. <unk> ."],
        ["1. Open the box.", "Take the key."],
        ["Return it.", "os.path is a module.", "max_size is a number."],
        ["Ist das so?", "Ö ist ein Buchstabe.", "Да.", "Нет."],
        ["no stop at all"],
        [],
    ],
    ids=lambda sentences: (sentences or ["nothing"])[0][:20],
)  # fmt: skip
def test_sentences_end_where_a_reader_ends_them(sentences):
    assert split(" ".join(sentences)) == sentences
    assert split("\n".join(" ".join(sentences).split())) == sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["今日は雨だ。", "明日は晴れる！", "本当？", "はい"],
        ["彼は「行く。すぐに行く！」と言った。", "私は驚いた。"],
        ["彼（本名。太郎）は来た。", "『終わり。』という本だ。", "閉じない「括弧。", "次"],
        ["वह गया।", "वह आया।", "क्यों？"],
    ],
    ids=lambda sentences: sentences[0],
)
def test_some_stops_need_no_space_behind_them(sentences):
    assert split("".join(sentences)) == split(" ".join(sentences)) == sentences


@given(st.text(alphabet=f'ab {NO_SPACE}「」（）."', max_size=40))
def test_no_letter_is_lost_where_no_space_is_needed(text):
    found = split(text)
    assert "".join(found).replace(" ", "") == text.replace(" ", "")
    assert all(sentence and sentence == " ".join(sentence.split()) for sentence in found)


def test_wikitext_has_documents_by_its_titles_and_no_headings_in_them():
    assert list(documents([WIKITEXT])) == [
        [
            "Homarus gammarus , the lobster , is a species of <unk> .",
            "It may weigh 6 @.@ 5 kg .",
            "<unk> eat it .",
            'He said : " It is blue . "',
            '" Red " is what it becomes .',
            "Key : H. g.",
            "= Played , W =",  # no heading: no blank line above it
            "The eggs hatch at night .",
        ],
        [
            "It was directed by J. P. Morgan of St. Louis , U.S.",
            "In 1996 it won an award .",
        ],
    ]


def test_plain_text_has_documents_by_its_titles_chapters_and_underlines():
    text = """\
        # One
        A long sentence
        in two lines.  Another
        without a stop

        ## Part
        - an item
          that goes on
        - another. It has two.

        Two
        ===
        Here. And
        there.

        Small
        -----
        Still two.

        Chapter 3

        Three.
        """
    assert list(documents([dedent(text)])) == [
        [
            "A long sentence in two lines.",
            "Another without a stop",
            "- an item that goes on",
            "- another.",
            "It has two.",
        ],
        ["Here.", "And there.", "Still two."],
        ["Three."],
    ]


def test_nothing_has_no_documents():
    for empty in ([], [""], ["\n\n", " \n"], ["# Title\n\n## Another\n"]):
        assert list(documents(empty)) == []


@given(st.lists(st.integers(0, len(WIKITEXT)), max_size=8))
def test_it_does_not_matter_where_blocks_are_cut(cuts):
    ends = [0, *sorted(cuts), len(WIKITEXT)]
    blocks = [WIKITEXT[a:b] for a, b in pairwise(ends)]
    assert list(documents(blocks)) == list(documents([WIKITEXT]))


@given(
    st.lists(PIECES | st.text(st.characters(exclude_characters=NO_SPACE), max_size=5)).map(" ".join)
)
def test_no_word_is_lost_or_moved(text):
    found = split(text)
    assert " ".join(found).split() == text.split()
    assert all(sentence and sentence == " ".join(sentence.split()) for sentence in found)


@given(st.lists(st.lists(PIECES, min_size=1).map(" ".join)).map("\n\n".join))
def test_of_documents_no_word_is_lost_but_headings(text):
    kept = [part for level, part in paragraphs([text]) if not level]
    assert "".join(" ".join(kept).split()) == "".join(text.split())
    said = " ".join(sentence for document in documents([text]) for sentence in document)
    assert said.split() == text.split()


@given(st.text(alphabet='ab.!?" \n#=-1(', max_size=40))
def test_any_text_is_read(text):
    assert all(sentence.strip() for document in documents([text]) for sentence in document)


def test_docstrings_have_sentences():
    found = [
        line for document in documents(read_corpus("docstrings").validation) for line in document
    ]
    whole = [line for line in found if re.fullmatch(r"[A-Z].*[.!?:]", line)]
    assert len(found) > 500 and len(whole) / len(found) > 0.6
    inside = [line for line in found if re.search(r"[a-z]{3}\. [A-Z][a-z]", line)]
    assert len(inside) / len(found) < 0.02


@pytest.mark.skipif(not find_corpus("wikitext-2"), reason="WikiText-2 is not on this machine")
def test_wikitext_is_read_whole_in_a_few_seconds():
    # In a process of its own, as here each call has its types checked.
    code = """
        import time
        from regard.data.corpus import read_corpus
        from regard.data.sentences import documents
        text = list(read_corpus("wikitext-2").train)
        start = time.process_time()
        found = list(documents(text))
        print(time.process_time() - start, len(found), sum(map(len, found)))
    """
    ran = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, check=True)
    seconds, articles, sentences = map(float, ran.stdout.split())
    assert seconds < 5 and 590 <= articles <= 630 and 70_000 < sentences < 85_000
