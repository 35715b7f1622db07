"""What a launch ends with when it could not begin."""


class LaunchError(RuntimeError):
    """The ranks could not be placed or started; the message says what to do about it."""
