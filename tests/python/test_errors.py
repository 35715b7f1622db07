"""The exception classes and their codes."""

import pytest

from nezha import errors


@pytest.mark.parametrize("code, kind, builtin", [
    (1, errors.InvalidArgument, ValueError), (2, errors.Unsupported, RuntimeError),
    (3, errors.TimedOut, TimeoutError), (4, errors.Exhausted, RuntimeError),
    (5, errors.PeerLost, RuntimeError), (6, errors.Mismatch, RuntimeError),
    (7, errors.Aborted, RuntimeError), (8, errors.Internal, RuntimeError),
    (99, errors.Internal, RuntimeError),
])
def test_codes(code, kind, builtin):
    error = errors.from_code(code, "rank 0: why")
    assert type(error) is kind
    assert isinstance(error, builtin) and isinstance(error, errors.Error)
    assert error.code == min(code, 8)
    assert str(error) == "rank 0: why"


def test_the_native_module_raises_them():
    from nezha import _native

    with pytest.raises(errors.InvalidArgument) as caught:
        _native.query("nothing of the kind", "{}")
    assert str(caught.value)
