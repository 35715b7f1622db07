"""The one exception of the launcher."""


class LaunchError(RuntimeError):
    """The ranks could not be placed or started; the message says what to do about it."""
