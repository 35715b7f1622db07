"""The one exception of chaos."""


class ChaosError(RuntimeError):
    """A run could not be set up or reported; the message says what to do about it."""
