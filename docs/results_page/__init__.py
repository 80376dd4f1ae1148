"""The sections of docs/results.md and docs/tried.md, each made from the files in results/."""
