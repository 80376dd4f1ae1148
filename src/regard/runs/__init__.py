"""Runs: trained from data to a report, loaded, compared, averaged."""
