"""The sections of docs/results.md, each made from the files in results/ that it shows."""
