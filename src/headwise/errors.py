"""The one exception headwise raises on bad input, and the one shape its messages have."""


class HeadwiseError(ValueError):
    """Bad input, said in one line: who refuses what, what was expected, what came, why, and the way out.

    The text is ``{who}: {what} must be {expected}, got {got}. {why}. {do}.`` and each part stays readable
    as an attribute of the same name.

    >>> raise HeadwiseError(who="Rotary", what="head_dim", expected="even", got="7",
    ...                     why="Dimensions turn in pairs", do="Use a head_dim of 6 or 8")
    Traceback (most recent call last):
    ...
    headwise.errors.HeadwiseError: Rotary: head_dim must be even, got 7. Dimensions turn in pairs. \
Use a head_dim of 6 or 8.
    """

    def __init__(self, *, who: str, what: str, expected: str, got: str, why: str, do: str) -> None:
        self.who, self.what, self.expected, self.got, self.why, self.do = who, what, expected, got, why, do
        super().__init__(f"{who}: {what} must be {expected}, got {got}. {why}. {do}.")
