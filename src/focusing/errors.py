"""What went wrong, in a sentence for the user."""


class UserError(Exception):
    """Something the user can put right. The commands print the sentence, and no traceback."""


class DivergedError(UserError):
    """The loss became NaN or infinite."""
