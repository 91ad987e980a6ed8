"""Parameters of requests and outputs: read where they are known, refused where they are not."""

from collections.abc import Iterable, Mapping

from heedful.oip import open_inference_pb2 as oip
from model.errors import InvalidInputError
from service.errors import quoted

Parameters = Mapping[str, oip.InferParameter]
Value = bool | int | float | str | None


def refuse_unknown(parameters: Iterable[str], known: Iterable[str], of: str) -> None:
    """A parameter that changes nothing here would let the caller believe it did."""
    known = tuple(known)
    for name in parameters:
        if name not in known:
            taken = f"known are {', '.join(known)}" if known else "none is known"
            raise InvalidInputError(
                f"the parameter {quoted(name)} of {of} is not known here: {taken}"
            )


def whole_number(parameters: Parameters, name: str) -> int:
    """The value of a parameter that counts something; 0 if it is not given."""
    value = _value(parameters, name)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInputError(f"the parameter {name} must be a whole number, 0 or more")
    return value


def word(parameters: Parameters, name: str, choices: Iterable[str], default: str) -> str:
    """The value of a parameter that is one of some words."""
    value = _value(parameters, name)
    if value is None:
        return default
    choices = tuple(choices)
    if value not in choices:
        shown = quoted(value) if isinstance(value, str) else repr(value)
        raise InvalidInputError(
            f"the parameter {name} is {shown}: choose from {', '.join(choices)}"
        )
    return str(value)


def _value(parameters: Parameters, name: str) -> Value:
    if name not in parameters:
        return None
    parameter = parameters[name]
    kind = parameter.WhichOneof("parameter_choice")
    if kind is None:
        raise InvalidInputError(f"the parameter {name} has no value: give one or leave it out")
    value: Value = getattr(parameter, kind)
    return value
