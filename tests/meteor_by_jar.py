"""METEOR itself, by its jar, of captions that runs have written: for results/, beside METEOR-lite.

    python tests/meteor_by_jar.py results/meteor-jar.json runs/caption-flickr8k-001 …

Needs Java, pycocoevalcap, the runs' own data, and that `regard evaluate` has measured them on test.
"""

import json
import sys
from pathlib import Path

from record_caption_fixtures import java_meteor
from regard.data.captions import read_captions
from regard.evaluation.ptb import words


def cut(text: str) -> str:
    return " ".join(words(text))


def main(out: Path, *folders: Path) -> None:
    known: dict[str, list[list[str]]] = {}
    rows = []
    for folder in folders:
        figures = json.loads((folder / "evaluation-test.json").read_text("utf-8"))["figures"]
        facts = json.loads((folder / "data.json").read_text("utf-8"))
        if facts["data"] not in known:
            captions = read_captions(facts["data"]).test.captions
            known[facts["data"]] = [[cut(text) for text in texts] for texts in captions]
        full, *_ = java_meteor([cut(text) for text in figures["captions"]], known[facts["data"]])
        lite = figures["METEOR-lite"]["value"]
        rows.append({"run": folder.name, "data": facts["data"], "METEOR": full, "lite": lite})
        print(f"{folder.name}: METEOR {100 * full:.1f}, METEOR-lite {100 * lite:.1f}")
    command = f"python tests/meteor_by_jar.py {out} {' '.join(each.name for each in folders)}"
    out.write_text(json.dumps({"command": command, "rows": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
