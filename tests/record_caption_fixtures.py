"""Ask the Java programs once, so that the tests can compare with them where there is no Java.

    pip install --no-deps --target /tmp/coco pycocoevalcap pycocotools
    PYTHONPATH=/tmp/coco python tests/record_caption_fixtures.py

writes tests/fixtures/captions.json in about a minute. All sentences are made here, none is from a
corpus. Needs a Java development kit, 11 or later. Run it again when METEOR-lite's list of function
words changes: METEOR is asked to use the same.
"""

import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from regard.evaluation.meteor import EXACT, FUNCTION_WORDS, STEM

FIXTURES = Path(__file__).parent / "fixtures" / "captions.json"

# Each line is cut by itself: the Java program looks past the end of a line for some rules.
TRICKY = r"""
A man's dog isn't here; they don't, won't, can't, shan't, ain't.
I'll I'd I'm you're we've they'd it's He'S DON'T y'all d'ye 'tis 'twas
cannot gonna wanna gotta lemme gimme Cannot GONNA wannabe cannot-do gonna's
U.S. troops in the U.S.A. and U.K. at 5 p.m. and a.m. today.
It is 5 p.m. It is Mr. Smith vs. Dr. Jones etc. and Mrs. Ms. St. Ave. Inc. Co. Jr. Sr.
They sell fruit, bread, etc.
Mass. and mass. and Miss. and miss. and Wash. and wash.
No. 5 is no. 5. The answer is no. Really
3.5 1,000 1,000,000.50 .5 -5 +5 50% $5 $5.00 €5 £3 5¢ #1 10:30 10:30am 1/2 12/25/2010 1-2 2-3-4
1990's '90s 90's 1980s 5'10" 6ft 6-foot 2nd 1st 20-year-old's 4x4 100mph
t-shirt black-and-white and/or he/she tri-colored -ependent 's-eye-view bird's-eye-view
rock 'n' roll rock'n'roll o'clock O'Brien d'Artagnan L'Oreal ma'am c'mon
"quoted" 'quoted' “curly” ‘curly’ it’s don’t ``back''
<tag> <b>bold</b> </p> < a > <3 &amp; &lt; &quot; a&amp;b
wait... what.... hm.. yes…  no . . . ok -- dash --- dash ---- – en — em a--b a—b a–b
( paren ) [ bracket ] { brace } (a) [b] {c}
http://www.example.com/a?b=c www.example.com example.com foo@bar.com e.g. i.e. Ph.D.
hello!!! what?! yes!? no?? ok! a,b a, b a ,b a;b a:b a : b
:) :-) ;) :( :D :P ^_^ =) word:) (a:d) a :dog
AT&T at&t R&B Q&A a & b a&b M&Ms
a=b a+b a*b a_b a|b a~b a^b * + = | ~ ^ _ __ # ## $ % & @ / ** ***
café naïve Ünïcödé 你好世界 日本語 שלום עולם مرحبا
a dog 😀 with 👍🏽 a ❤️ ball a😀b
שלום. עולם? مرحبا، بك؟ (مرحبا) हिन्दी
the dog ' s ball ' yes ' it 's don 't do n't dogs' tails James's James'
A dog.A cat. a dog.a cat hello!there what?yes 3!a
½ cup ¼ °C 30° © ® ™ • § × ÷ ±
wouldn't've should've I'd've who's what're how'd 'em 'cause 'til
(555) 555-1234 1-800-555-1234 555-1234
U.S.-led 3.5-inch 1/2-mile 1,000-foot mid-1990s 7-Eleven Coca-Cola's
! . , ; : - -- ... '' ``
?! !!
a  dog	with a tab
""".strip().split("\n")

# Words that people use for one another, so that the matchers of METEOR have something to do.
WHO = ["man", "guy", "person", "woman", "lady", "girl", "boy", "child", "kid", "dog", "puppy"]
LOOK = ["small", "little", "young", "big", "large", "black", "brown", "white", "happy", "wet"]
DOES = [("runs", "is running"), ("jumps", "jumped"), ("sits", "is sitting"), ("swims", "swimming")]
DOES += [("plays", "is playing and running"), ("walks", "walked"), ("rides a bike", "riding bikes")]
WHERE = ["on the grass", "in the water", "near a lake", "by the sea", "on a beach", "in the snow"]
WHERE += ["through a field", "across the street", "over the fence", "down a hill", "at the park"]
ENDING = ["", "", " with a ball", " while people watch", " in a t-shirt", " and the dog 's toy"]

STEMS = """
    running runs ran jumped jumping happily skies sky skis dying news early only generally general
    communism communication arsenal inning outing proceed exceeded hopping hoping hoped agreed
    feed national rational relational conditional valence hesitance digitizer conformably radically
    differently vilely analogously vietnamization predication operator feudalism decisiveness
    hopefulness callousness formality sensitivity sensibility apology geologist triplicate
    formative formalize electricity electrical hopeful goodness revival allowance inference
    airliner gyroscopic adjustable defensible irritant replacement adjustment dependent adoption
    homologous effective bowdlerize probate rate cease controlling roll dog dogs dog's dogs' 's y
    yes youth boy boys say saying cries ties tied gas gaps kiwis this kissed snowing snowed
    falling fizzed failing filing bed shed red ing ed bled sing singly gently luxuriated
    quietly evenly sickly publicly badly
""".split()  # noqa: SIM905

ASK_STEM = """
import java.util.Scanner;
import org.tartarus.snowball.ext.englishStemmer;
public class AskStem {
  public static void main(String[] given) {
    englishStemmer stemmer = new englishStemmer();
    Scanner lines = new Scanner(System.in, "UTF-8");
    while (lines.hasNextLine()) {
      stemmer.setCurrent(lines.nextLine());
      stemmer.stem();
      System.out.println(stemmer.getCurrent());
    }
  }
}
"""


def coco() -> Path:
    """Where pycocoevalcap is; it has no file of its own to ask."""
    import pycocoevalcap

    return Path(next(iter(pycocoevalcap.__path__)))


def java_words(sentences: list[str]) -> list[list[str]]:
    """As pycocoevalcap has them, but none affected by the sentence after it."""
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    # A line of its own between any two: letters that no rule looks ahead for.
    lines = [line for sentence in sentences for line in (sentence, "zzz")]
    cut = PTBTokenizer().tokenize({n: [{"caption": line}] for n, line in enumerate(lines)})
    return [cut[2 * n][0].split() for n in range(len(sentences))]


def java_meteor(
    hypotheses: list[str], references: list[list[str]], *options: str
) -> tuple[float, list[float]]:
    """The figure of all and of each; rows have equally many references."""
    with tempfile.TemporaryDirectory() as folder:
        said, known = Path(folder) / "said", Path(folder) / "known"
        said.write_text("\n".join(hypotheses) + "\n", "utf-8")
        known.write_text("\n".join(text for row in references for text in row) + "\n", "utf-8")
        jar = coco() / "meteor" / "meteor-1.5.jar"
        command = ["java", "-Xmx2G", "-jar", str(jar), str(said), str(known), "-l", "en", "-norm"]
        command += ["-r", str(len(references[0])), *options]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    each = [float(value) for value in re.findall(r"Segment \d+ score:\s+(\S+)", text)]
    return float(re.findall(r"Final score:\s+(\S+)", text)[0]), each


def java_meteor_lite(
    hypotheses: list[str], references: list[list[str]]
) -> tuple[float, list[float]]:
    """The same by two of its four matchers, and with our function words in place of its own."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "function.words"
        listed.write_text("\n".join(sorted(FUNCTION_WORDS)) + "\n", "utf-8")
        options = ["-m", "exact stem", "-w", f"{EXACT} {STEM}", "-s", str(listed)]
        return java_meteor(hypotheses, references, *options)


def java_stems(words: list[str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "AskStem.java"
        source.write_text(ASK_STEM, "utf-8")
        jar = coco() / "meteor" / "meteor-1.5.jar"
        command = ["java", "-cp", str(jar), str(source)]
        asked = "\n".join(words) + "\n"
        done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
    return done.stdout.split()


def coco_scores(hypotheses: list[str], references: list[list[str]]) -> dict[str, object]:
    """BLEU, ROUGE-L and CIDEr-D by pycocoevalcap, of words joined by spaces."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    known = dict(enumerate(references))
    said = {n: [text] for n, text in enumerate(hypotheses)}
    bleu, bleu_each = Bleu(4).compute_score(known, said, verbose=0)
    _, rouge = Rouge().compute_score(known, said)
    _, cider = Cider().compute_score(known, said)
    return {
        "bleu": [float(value) for value in bleu],
        "bleu_each": [[float(value) for value in row] for row in zip(*bleu_each, strict=True)],
        "rouge": rouge.tolist(),
        "cider": cider.tolist(),
    }


def scene(draw: random.Random) -> dict[str, list[str]]:
    """What several people could say of one image."""
    parts = {"who": WHO, "look": LOOK, "where": WHERE, "ending": ENDING}
    return {
        "does": list(draw.choice(DOES)),
        **{name: draw.sample(choices, 2) for name, choices in parts.items()},
    }


def say(scene: dict[str, list[str]], draw: random.Random) -> str:
    does, who, look, where, ending = (draw.choice(words) for words in scene.values())
    article = draw.choice(["a", "the", "one"])
    look = draw.choice([look + " ", look + " ", "", f"{look} and {draw.choice(LOOK)} "])
    return f"{article} {look}{who} {does} {where}{ending}"


def corpus(seed: int, images: int, known: int) -> tuple[list[str], list[list[str]]]:
    """Hypotheses that are sometimes good, cut short, repetitive, shuffled, foreign or empty."""
    draw = random.Random(seed)
    scenes = [scene(draw) for _ in range(images)]
    references = [[say(each, draw) for _ in range(known)] for each in scenes]
    said = [say(each, draw) for each in scenes]
    said[0], said[1] = references[0][0], ""
    said[2] = " ".join(["a"] * 30)
    said[3] = " ".join(draw.sample(said[3].split(), len(said[3].split())))
    said[4] = said[4] + " " + said[4]
    said[5], said[6] = say(scenes[7], draw), said[6].split()[0]
    return said, references


def main() -> None:
    corpora = []
    for seed, images, known in [(0, 40, 5), (1, 15, 1), (2, 10, 3)]:
        said, references = corpus(seed, images, known)
        lite = java_meteor_lite(said, references)
        full = java_meteor(said, references)
        corpora.append(
            {
                "hypotheses": said,
                "references": references,
                **coco_scores(said, references),
                "meteor_of_two_matchers": lite[0],
                "meteor_of_two_matchers_each": lite[1],
                "meteor": full[0],
            }
        )
    recorded = {
        "words": [[text, cut] for text, cut in zip(TRICKY, java_words(TRICKY), strict=True)],
        "stems": dict(zip(STEMS, java_stems(STEMS), strict=True)),
        "corpora": corpora,
    }
    FIXTURES.parent.mkdir(exist_ok=True)
    FIXTURES.write_text(json.dumps(recorded, ensure_ascii=False, indent=1) + "\n", "utf-8")
    print(f"wrote {FIXTURES}, {FIXTURES.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
