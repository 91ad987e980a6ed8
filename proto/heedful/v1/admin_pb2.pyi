from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class LoadModelRequest(_message.Message):
    __slots__ = ("model", "version", "keep_default")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    KEEP_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: str
    keep_default: bool
    def __init__(self, model: _Optional[str] = ..., version: _Optional[str] = ..., keep_default: bool = ...) -> None: ...

class LoadModelResponse(_message.Message):
    __slots__ = ("version", "previous_default_version", "default_version")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_DEFAULT_VERSION_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_VERSION_FIELD_NUMBER: _ClassVar[int]
    version: str
    previous_default_version: str
    default_version: str
    def __init__(self, version: _Optional[str] = ..., previous_default_version: _Optional[str] = ..., default_version: _Optional[str] = ...) -> None: ...

class UnloadModelRequest(_message.Message):
    __slots__ = ("model", "version")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: str
    def __init__(self, model: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class UnloadModelResponse(_message.Message):
    __slots__ = ("versions", "default_version")
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_VERSION_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedScalarFieldContainer[str]
    default_version: str
    def __init__(self, versions: _Optional[_Iterable[str]] = ..., default_version: _Optional[str] = ...) -> None: ...

class SetDefaultVersionRequest(_message.Message):
    __slots__ = ("model", "version")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: str
    def __init__(self, model: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class SetDefaultVersionResponse(_message.Message):
    __slots__ = ("previous_default_version",)
    PREVIOUS_DEFAULT_VERSION_FIELD_NUMBER: _ClassVar[int]
    previous_default_version: str
    def __init__(self, previous_default_version: _Optional[str] = ...) -> None: ...
