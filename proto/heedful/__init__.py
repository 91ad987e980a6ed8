"""The client of a heedful server: classify texts and see what the model attends to."""

from heedful.admin import Admin, LoadedVersion
from heedful.aio import AsyncClient
from heedful.attention import Attention
from heedful.client import Client
from heedful.errors import (
    AnswerError,
    DeadlineExceededError,
    FailedPreconditionError,
    HeedfulError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    RequestError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
)
from heedful.identity import Tls
from heedful.records import LabelScore, Timings, TruncationLoss
from heedful.requests import AttentionRequest, ClassifyOptions, TokenizeOptions
from heedful.results import Classification, ModelInfo, ModelVersion, Tokenization
from heedful.tokens import Token

__all__ = [
    "Admin",
    "AnswerError",
    "AsyncClient",
    "Attention",
    "AttentionRequest",
    "Classification",
    "ClassifyOptions",
    "Client",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "HeedfulError",
    "InternalError",
    "InvalidArgumentError",
    "LabelScore",
    "LoadedVersion",
    "ModelInfo",
    "ModelVersion",
    "NotFoundError",
    "RequestError",
    "ResourceExhaustedError",
    "Timings",
    "Tls",
    "Token",
    "Tokenization",
    "TokenizeOptions",
    "TruncationLoss",
    "UnauthenticatedError",
    "UnavailableError",
]
