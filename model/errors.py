"""What can go wrong, named by who must act. Messages say what is wrong and what to do.

HeedfulError
├── InvalidInputError   the caller: change the input
├── BundleError         whoever made or moved the bundle
├── DataError           whoever prepared the data set
└── SetupError          whoever installs or configures the machine
"""


class HeedfulError(Exception):
    """The base of every error heedful raises on purpose."""


class InvalidInputError(HeedfulError):
    """One text, label, layer or option cannot be used as given."""


class BundleError(HeedfulError):
    """A bundle is missing, changed, too new, or not able to do what is asked of it."""


class DataError(HeedfulError):
    """A data set cannot be read or does not hold what was said of it."""


class SetupError(HeedfulError):
    """A package, device or port that was asked for is not to be had on this machine."""
