"""The one exception of the lab."""


class LabError(RuntimeError):
    """A lab could not be built, found or changed; the message says what to do about it."""
