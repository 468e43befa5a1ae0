"""What went wrong, in a sentence for the user."""


class UserError(Exception):
    """Something the user can put right. The commands print the sentence, and no traceback."""


class DivergedError(UserError):
    """The loss became NaN or infinite."""


class BusyError(UserError):
    """Another process is at work where this one wants to."""


class PrunedError(Exception):
    """A search has given a trial up; not an error of anybody."""
