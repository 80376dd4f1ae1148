"""The one exception that is a person's mistake and not a fault of the program."""


class UserError(Exception):
    """Shown as one sentence without a traceback; it names the file, line or flag, and what to do.

    Library code raises `ValueError` with the numbers in it; this one is for whatever a user typed,
    pointed to or left out.
    """
