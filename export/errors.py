"""What can go wrong in an export; nothing is written then."""

from model.errors import HeedfulError


class ExportError(HeedfulError):
    """A graph did not come out as it must."""


class ParityError(ExportError):
    """The graphs answer differently from PyTorch by more than is allowed."""


class AccuracyError(ExportError):
    """int8 loses more accuracy than is allowed."""
