from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Truncation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRUNCATION_ERROR: _ClassVar[Truncation]
    TRUNCATION_HEAD: _ClassVar[Truncation]
    TRUNCATION_TAIL: _ClassVar[Truncation]
    TRUNCATION_HEAD_TAIL: _ClassVar[Truncation]

class Reduction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REDUCTION_NONE: _ClassVar[Reduction]
    REDUCTION_HEAD_MEAN: _ClassVar[Reduction]

class AttentionEncoding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ATTENTION_ENCODING_FLOAT32: _ClassVar[AttentionEncoding]
    ATTENTION_ENCODING_FLOAT16: _ClassVar[AttentionEncoding]
    ATTENTION_ENCODING_UINT8_ROW_MAX: _ClassVar[AttentionEncoding]

class ProblemType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROBLEM_TYPE_UNSPECIFIED: _ClassVar[ProblemType]
    PROBLEM_TYPE_SINGLE_LABEL: _ClassVar[ProblemType]
    PROBLEM_TYPE_MULTI_LABEL: _ClassVar[ProblemType]

class ModelState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODEL_STATE_UNSPECIFIED: _ClassVar[ModelState]
    MODEL_STATE_LOADING: _ClassVar[ModelState]
    MODEL_STATE_READY: _ClassVar[ModelState]
    MODEL_STATE_DRAINING: _ClassVar[ModelState]
    MODEL_STATE_FAILED: _ClassVar[ModelState]
TRUNCATION_ERROR: Truncation
TRUNCATION_HEAD: Truncation
TRUNCATION_TAIL: Truncation
TRUNCATION_HEAD_TAIL: Truncation
REDUCTION_NONE: Reduction
REDUCTION_HEAD_MEAN: Reduction
ATTENTION_ENCODING_FLOAT32: AttentionEncoding
ATTENTION_ENCODING_FLOAT16: AttentionEncoding
ATTENTION_ENCODING_UINT8_ROW_MAX: AttentionEncoding
PROBLEM_TYPE_UNSPECIFIED: ProblemType
PROBLEM_TYPE_SINGLE_LABEL: ProblemType
PROBLEM_TYPE_MULTI_LABEL: ProblemType
MODEL_STATE_UNSPECIFIED: ModelState
MODEL_STATE_LOADING: ModelState
MODEL_STATE_READY: ModelState
MODEL_STATE_DRAINING: ModelState
MODEL_STATE_FAILED: ModelState

class Input(_message.Message):
    __slots__ = ("text", "pair", "token_ids")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PAIR_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    text: str
    pair: TextPair
    token_ids: TokenIds
    def __init__(self, text: _Optional[str] = ..., pair: _Optional[_Union[TextPair, _Mapping]] = ..., token_ids: _Optional[_Union[TokenIds, _Mapping]] = ...) -> None: ...

class TextPair(_message.Message):
    __slots__ = ("first", "second")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    first: str
    second: str
    def __init__(self, first: _Optional[str] = ..., second: _Optional[str] = ...) -> None: ...

class TokenIds(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class AttentionOptions(_message.Message):
    __slots__ = ("layers", "heads", "queries", "reduction", "encoding")
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    REDUCTION_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    layers: _containers.RepeatedScalarFieldContainer[int]
    heads: _containers.RepeatedScalarFieldContainer[int]
    queries: _containers.RepeatedScalarFieldContainer[int]
    reduction: Reduction
    encoding: AttentionEncoding
    def __init__(self, layers: _Optional[_Iterable[int]] = ..., heads: _Optional[_Iterable[int]] = ..., queries: _Optional[_Iterable[int]] = ..., reduction: _Optional[_Union[Reduction, str]] = ..., encoding: _Optional[_Union[AttentionEncoding, str]] = ...) -> None: ...

class ClassifyRequest(_message.Message):
    __slots__ = ("inputs", "model", "version", "top_k", "truncation", "target_label", "return_tokens", "attention")
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TRUNCATION_FIELD_NUMBER: _ClassVar[int]
    TARGET_LABEL_FIELD_NUMBER: _ClassVar[int]
    RETURN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedCompositeFieldContainer[Input]
    model: str
    version: str
    top_k: int
    truncation: Truncation
    target_label: str
    return_tokens: bool
    attention: AttentionOptions
    def __init__(self, inputs: _Optional[_Iterable[_Union[Input, _Mapping]]] = ..., model: _Optional[str] = ..., version: _Optional[str] = ..., top_k: _Optional[int] = ..., truncation: _Optional[_Union[Truncation, str]] = ..., target_label: _Optional[str] = ..., return_tokens: bool = ..., attention: _Optional[_Union[AttentionOptions, _Mapping]] = ...) -> None: ...

class ClassifyResponse(_message.Message):
    __slots__ = ("results", "model", "version", "backend", "precision", "timings")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[Classification]
    model: str
    version: str
    backend: str
    precision: str
    timings: Timings
    def __init__(self, results: _Optional[_Iterable[_Union[Classification, _Mapping]]] = ..., model: _Optional[str] = ..., version: _Optional[str] = ..., backend: _Optional[str] = ..., precision: _Optional[str] = ..., timings: _Optional[_Union[Timings, _Mapping]] = ...) -> None: ...

class ClassifyStreamRequest(_message.Message):
    __slots__ = ("id", "request", "timeout_seconds")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    id: str
    request: ClassifyRequest
    timeout_seconds: float
    def __init__(self, id: _Optional[str] = ..., request: _Optional[_Union[ClassifyRequest, _Mapping]] = ..., timeout_seconds: _Optional[float] = ...) -> None: ...

class ClassifyStreamResponse(_message.Message):
    __slots__ = ("id", "response", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: str
    response: ClassifyResponse
    error: StreamError
    def __init__(self, id: _Optional[str] = ..., response: _Optional[_Union[ClassifyResponse, _Mapping]] = ..., error: _Optional[_Union[StreamError, _Mapping]] = ...) -> None: ...

class StreamError(_message.Message):
    __slots__ = ("code", "message", "reason", "retry_seconds")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    reason: str
    retry_seconds: float
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., reason: _Optional[str] = ..., retry_seconds: _Optional[float] = ...) -> None: ...

class Classification(_message.Message):
    __slots__ = ("labels", "tokens", "truncated", "attention", "cached")
    LABELS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedCompositeFieldContainer[LabelScore]
    tokens: _containers.RepeatedCompositeFieldContainer[Token]
    truncated: TruncationLoss
    attention: Attention
    cached: bool
    def __init__(self, labels: _Optional[_Iterable[_Union[LabelScore, _Mapping]]] = ..., tokens: _Optional[_Iterable[_Union[Token, _Mapping]]] = ..., truncated: _Optional[_Union[TruncationLoss, _Mapping]] = ..., attention: _Optional[_Union[Attention, _Mapping]] = ..., cached: bool = ...) -> None: ...

class LabelScore(_message.Message):
    __slots__ = ("label", "index", "probability", "logit", "applies")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    LOGIT_FIELD_NUMBER: _ClassVar[int]
    APPLIES_FIELD_NUMBER: _ClassVar[int]
    label: str
    index: int
    probability: float
    logit: float
    applies: bool
    def __init__(self, label: _Optional[str] = ..., index: _Optional[int] = ..., probability: _Optional[float] = ..., logit: _Optional[float] = ..., applies: bool = ...) -> None: ...

class Token(_message.Message):
    __slots__ = ("id", "piece", "text", "begin", "end", "segment", "special")
    ID_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_FIELD_NUMBER: _ClassVar[int]
    id: int
    piece: str
    text: str
    begin: int
    end: int
    segment: int
    special: bool
    def __init__(self, id: _Optional[int] = ..., piece: _Optional[str] = ..., text: _Optional[str] = ..., begin: _Optional[int] = ..., end: _Optional[int] = ..., segment: _Optional[int] = ..., special: bool = ...) -> None: ...

class TruncationLoss(_message.Message):
    __slots__ = ("original_tokens", "lost_tokens", "lost_characters")
    ORIGINAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LOST_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LOST_CHARACTERS_FIELD_NUMBER: _ClassVar[int]
    original_tokens: int
    lost_tokens: int
    lost_characters: int
    def __init__(self, original_tokens: _Optional[int] = ..., lost_tokens: _Optional[int] = ..., lost_characters: _Optional[int] = ...) -> None: ...

class Attention(_message.Message):
    __slots__ = ("layers", "heads", "queries", "shape", "encoding", "reduction", "data", "row_max")
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    REDUCTION_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    ROW_MAX_FIELD_NUMBER: _ClassVar[int]
    layers: _containers.RepeatedScalarFieldContainer[int]
    heads: _containers.RepeatedScalarFieldContainer[int]
    queries: _containers.RepeatedScalarFieldContainer[int]
    shape: _containers.RepeatedScalarFieldContainer[int]
    encoding: AttentionEncoding
    reduction: Reduction
    data: bytes
    row_max: bytes
    def __init__(self, layers: _Optional[_Iterable[int]] = ..., heads: _Optional[_Iterable[int]] = ..., queries: _Optional[_Iterable[int]] = ..., shape: _Optional[_Iterable[int]] = ..., encoding: _Optional[_Union[AttentionEncoding, str]] = ..., reduction: _Optional[_Union[Reduction, str]] = ..., data: _Optional[bytes] = ..., row_max: _Optional[bytes] = ...) -> None: ...

class Timings(_message.Message):
    __slots__ = ("tokenize_seconds", "queue_seconds", "compute_seconds", "total_seconds")
    TOKENIZE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    tokenize_seconds: float
    queue_seconds: float
    compute_seconds: float
    total_seconds: float
    def __init__(self, tokenize_seconds: _Optional[float] = ..., queue_seconds: _Optional[float] = ..., compute_seconds: _Optional[float] = ..., total_seconds: _Optional[float] = ...) -> None: ...

class TokenizeRequest(_message.Message):
    __slots__ = ("inputs", "model", "version", "truncation")
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TRUNCATION_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedCompositeFieldContainer[Input]
    model: str
    version: str
    truncation: Truncation
    def __init__(self, inputs: _Optional[_Iterable[_Union[Input, _Mapping]]] = ..., model: _Optional[str] = ..., version: _Optional[str] = ..., truncation: _Optional[_Union[Truncation, str]] = ...) -> None: ...

class TokenizeResponse(_message.Message):
    __slots__ = ("results", "model", "version")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[Tokenization]
    model: str
    version: str
    def __init__(self, results: _Optional[_Iterable[_Union[Tokenization, _Mapping]]] = ..., model: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class Tokenization(_message.Message):
    __slots__ = ("tokens", "truncated")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[Token]
    truncated: TruncationLoss
    def __init__(self, tokens: _Optional[_Iterable[_Union[Token, _Mapping]]] = ..., truncated: _Optional[_Union[TruncationLoss, _Mapping]] = ...) -> None: ...

class GetModelRequest(_message.Message):
    __slots__ = ("model", "version")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: str
    def __init__(self, model: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class GetModelResponse(_message.Message):
    __slots__ = ("model", "version", "created", "labels", "problem_type", "max_tokens", "max_inputs", "max_attention_bytes", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "backend", "device", "precision", "attention")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_TYPE_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_INPUTS_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTENTION_BYTES_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_SIZE_FIELD_NUMBER: _ClassVar[int]
    NUM_HIDDEN_LAYERS_FIELD_NUMBER: _ClassVar[int]
    NUM_ATTENTION_HEADS_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: str
    created: str
    labels: _containers.RepeatedScalarFieldContainer[str]
    problem_type: ProblemType
    max_tokens: int
    max_inputs: int
    max_attention_bytes: int
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    backend: str
    device: str
    precision: str
    attention: bool
    def __init__(self, model: _Optional[str] = ..., version: _Optional[str] = ..., created: _Optional[str] = ..., labels: _Optional[_Iterable[str]] = ..., problem_type: _Optional[_Union[ProblemType, str]] = ..., max_tokens: _Optional[int] = ..., max_inputs: _Optional[int] = ..., max_attention_bytes: _Optional[int] = ..., vocab_size: _Optional[int] = ..., hidden_size: _Optional[int] = ..., num_hidden_layers: _Optional[int] = ..., num_attention_heads: _Optional[int] = ..., backend: _Optional[str] = ..., device: _Optional[str] = ..., precision: _Optional[str] = ..., attention: bool = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[ModelVersion]
    def __init__(self, models: _Optional[_Iterable[_Union[ModelVersion, _Mapping]]] = ...) -> None: ...

class ModelVersion(_message.Message):
    __slots__ = ("model", "version", "state", "reason", "is_default", "backend", "device", "precision")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: str
    state: ModelState
    reason: str
    is_default: bool
    backend: str
    device: str
    precision: str
    def __init__(self, model: _Optional[str] = ..., version: _Optional[str] = ..., state: _Optional[_Union[ModelState, str]] = ..., reason: _Optional[str] = ..., is_default: bool = ..., backend: _Optional[str] = ..., device: _Optional[str] = ..., precision: _Optional[str] = ...) -> None: ...
