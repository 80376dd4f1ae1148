"""What the tests that need a GPU came to."""

from results_page.records import named, read


def gpu_tests() -> list[str]:
    lines = ["## Tests on a GPU"]
    for name in named("gpu-tests*"):
        facts = read(name)
        files = {test["id"].partition("::")[0] for test in facts["tests"]}
        lines.append(
            f"`make test-gpu`, {len(files)} files, on {facts['device']}, torch {facts['torch']}, "
            f"commit {facts['commit']}: {facts['passed']} passed, {facts['failed']} failed, "
            f"{facts['skipped']} skipped in {facts['seconds']:.0f} s."
        )
        lines += [
            f"Failed: `{test['id']}`." for test in facts["tests"] if test["outcome"] == "failed"
        ]
        lines += [facts["note"]] if "note" in facts else []
    return lines
