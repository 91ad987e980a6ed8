"""The bundle: one folder that holds all a server needs, checked before anything loads.

A bundle is immutable. It is written beside its place and moved there in one step, so that nobody
ever sees half of one.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from model.config import EncoderConfig
from model.errors import BundleError
from model.tokenizer import TextEncoder

FORMAT_VERSION = 1
MANIFEST, CONFIG, TOKENIZER, WEIGHTS = (
    "bundle.json",
    "config.json",
    "tokenizer.json",
    "weights.safetensors",
)
CLASSIFY_GRAPH, ATTENTION_GRAPH, GRAPH_WEIGHTS, MODEL_CARD = (
    "classify.onnx",
    "attention.onnx",
    "weights.bin",
    "MODEL_CARD.md",
)
REQUIRED = (CONFIG, TOKENIZER, WEIGHTS)

ProblemType = Literal["single_label", "multi_label"]
Precision = Literal["float32", "int8"]


@dataclass(frozen=True, kw_only=True)
class Golden:
    """A known question and its answer: a server is ready when its engine agrees.

    Attributes:
        input_ids: one text's token ids; made up, never somebody's text.
        logits: what PyTorch answered in float32, one per label.
    """

    input_ids: list[int]
    logits: list[float]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of bundle.json, beside the list of files.

    Attributes:
        name: what callers ask for.
        version: names these weights; the first twelve digits of their sha256.
        created: UTC, ISO 8601.
        labels: names of the classes, in the order of the logits.
        problem_type: one label a text (softmax) or any number (a sigmoid each).
        max_tokens: longest text, special tokens included.
        golden: a known answer.
        provenance: command, data, seeds, versions of packages; for people.
        metrics: what was measured on which split; for people and the model card.
        parity: how far each graph was from PyTorch at export; empty before it.
        precision: numbers that classify.onnx computes with; attention.onnx is always float32.
    """

    name: str
    version: str
    created: str
    labels: list[str]
    problem_type: ProblemType
    max_tokens: int
    golden: Golden
    provenance: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    parity: dict[str, Any] = field(default_factory=dict)
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        check_name(self.name)
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise ValueError("labels must be given, each once")
        if not all(isinstance(label, str) and label for label in self.labels):
            raise ValueError("labels must be texts, none of them empty")
        if self.problem_type not in get_args(ProblemType):
            raise ValueError(
                f"problem_type must be one of {get_args(ProblemType)}, got {self.problem_type!r}"
            )
        if self.precision not in get_args(Precision):
            raise ValueError(
                f"precision must be one of {get_args(Precision)}, got {self.precision!r}"
            )
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")
        if len(self.golden.logits) != len(self.labels):
            raise ValueError("the golden example must have one logit per label")


@dataclass(frozen=True)
class Bundle:
    """A bundle on disk, read and checked."""

    path: Path
    manifest: Manifest
    config: EncoderConfig
    files: Mapping[str, str]  # name -> sha256

    def file(self, name: str) -> Path:
        """The path of a file that bundle.json lists; a BundleError if it doesn't."""
        if name not in self.files:
            advice = "; run `heedful export` on it first" if name.endswith(".onnx") else ""
            raise BundleError(f"the bundle {self.path} has no {name}{advice}")
        return self.path / name

    def text_encoder(self) -> TextEncoder:
        encoder = TextEncoder.from_file(self.file(TOKENIZER), self.manifest.max_tokens)
        if encoder.vocab_size > self.config.vocab_size:
            raise BundleError(
                f"tokenizer.json has {encoder.vocab_size} tokens and the encoder "
                f"{self.config.vocab_size}: they do not belong together"
            )
        return encoder


def check_name(name: str) -> None:
    """Refuses, by a ValueError, a name that callers and metrics could not use as it is."""
    if not name or not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"the name {name!r} must be letters, digits, hyphens and underscores")


def created_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def weights_version(path: Path) -> str:
    return _sha256(path)[:12]


def load_bundle(path: Path | str) -> Bundle:
    """Reads a bundle and checks every file it lists against its hash.

    Raises:
        BundleError: no bundle there, made by a newer heedful, or a file is missing or changed.
    """
    path = Path(path)
    record = _read_manifest(path)
    files = record.pop("files", None)
    if not isinstance(files, dict) or not set(REQUIRED) <= set(files):
        raise BundleError(f"{path / MANIFEST} must list the files {', '.join(REQUIRED)}")
    for name, digest in files.items():
        _check_file(path, name, digest)
    unknown = sorted(set(record) - {item.name for item in fields(Manifest)})
    if unknown:
        raise BundleError(f"{path / MANIFEST} has unknown fields {unknown}")
    try:
        record["golden"] = Golden(**record["golden"])
        manifest = Manifest(**record)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BundleError(f"{path / MANIFEST}: {error}") from None
    config = EncoderConfig.from_json((path / CONFIG).read_text(encoding="utf-8"))
    if config.num_labels != len(manifest.labels):
        raise BundleError(
            f"{path} names {len(manifest.labels)} labels and its encoder has {config.num_labels}"
        )
    if manifest.max_tokens > config.max_position_embeddings:
        raise BundleError(
            f"{path} says it takes {manifest.max_tokens} tokens and its encoder has positions for "
            f"{config.max_position_embeddings}"
        )
    return Bundle(path, manifest, config, files)


@contextmanager
def new_bundle(path: Path | str) -> Iterator[Path]:
    """Gives a folder to fill, and moves it to path when all went well.

    Raises:
        BundleError: something is at path already.
    """
    path = Path(path)
    refuse_existing(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        yield draft
        draft.chmod(0o755)
        refuse_existing(path)
        os.replace(draft, path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def refuse_existing(path: Path) -> None:
    if path.exists():
        raise BundleError(f"{path} exists, and a bundle is never changed: choose another folder")


def seal(folder: Path, manifest: Manifest, names: Sequence[str]) -> None:
    """Writes bundle.json over the named files of a folder."""
    record = {"format_version": FORMAT_VERSION, **asdict(manifest)}
    record["files"] = {name: _sha256(folder / name) for name in names}
    text = json.dumps(record, ensure_ascii=False, indent=2, allow_nan=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def _read_manifest(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise BundleError(f"{path} is not a folder: give the folder that holds {MANIFEST}")
    try:
        record = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BundleError(f"{path} is not a bundle: it has no {MANIFEST}") from None
    except (ValueError, OSError) as error:
        raise BundleError(f"{path / MANIFEST} cannot be read: {error}") from None
    if not isinstance(record, dict):
        raise BundleError(f"{path / MANIFEST} must hold one JSON object")
    version = record.pop("format_version", None)
    if version != FORMAT_VERSION:
        raise BundleError(
            f"{path} has bundle format {version} and this heedful reads {FORMAT_VERSION}: "
            "upgrade heedful, or export the bundle again"
        )
    return record


def _check_file(path: Path, name: str, digest: object) -> None:
    if Path(name).name != name or name in {"", ".", ".."} or "\\" in name:
        raise BundleError(f"{path / MANIFEST} lists {name!r}, which is not a plain file name")
    file = path / name
    if file.is_symlink() and file.resolve().parent != path.resolve():
        raise BundleError(f"{file} points out of the bundle")
    if not file.is_file():
        raise BundleError(f"{file} is missing: copy the whole folder")
    if _sha256(file) != digest:
        raise BundleError(f"{file} was changed: its sha256 is not the one in {MANIFEST}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
