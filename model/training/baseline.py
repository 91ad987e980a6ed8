"""TF-IDF with logistic regression: what any result has to be compared with."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from model.bundle import ProblemType
from model.data.dataset import Dataset, Example
from model.training.batches import target_tensor
from model.training.metrics import score_classes, score_decisions

CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
# Inverse regularization strengths; the best on validation is kept.
STRENGTHS = (1.0, 4.0)


def measure_baseline(dataset: Dataset, metric: str) -> dict[str, Any]:
    """Fits the baseline on train, chooses its strength on validation, and scores both splits.

    Returns:
        name, and the figures of metrics.score_classes or score_decisions by split.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    by_character = is_mostly_cjk(dataset.train)
    analysis: dict[str, Any] = (
        {"analyzer": "char", "ngram_range": (1, 3)}
        if by_character
        else {"analyzer": "word", "ngram_range": (1, 2), "token_pattern": r"(?u)\b\w+\b"}
    )
    vectorizer = TfidfVectorizer(sublinear_tf=True, **analysis)
    features = {"train": vectorizer.fit_transform(map(_joined, dataset.train))}
    for name in ("validation", "test"):
        features[name] = vectorizer.transform(map(_joined, dataset.split(name)))
    targets = {
        name: target_tensor(dataset.split(name), dataset.labels, dataset.problem_type).numpy()
        for name in features
    }
    best: dict[str, Any] = {}
    for strength in STRENGTHS:
        model = _fit(features["train"], targets["train"], strength, dataset.problem_type)
        figures = {
            name: _score(model.predict(features[name]), targets[name], dataset)
            for name in ("validation", "test")
        }
        if not best or figures["validation"][metric] > best["validation"][metric]:
            grams = "characters 1-3" if by_character else "words 1-2"
            best = {"name": f"TF-IDF ({grams}) + logistic regression, C={strength:g}", **figures}
    return best


def is_mostly_cjk(examples: Sequence[Example]) -> bool:
    """Whether most texts have Chinese, Japanese or Korean characters, which words don't part."""
    return 2 * sum(bool(CJK.search(example.text)) for example in examples) > len(examples)


def _joined(example: Example) -> str:
    return example.text if example.text_pair is None else f"{example.text}\n{example.text_pair}"


# scikit-learn ships no types.
def _fit(features: Any, targets: Any, strength: float, problem_type: ProblemType) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    regression = LogisticRegression(C=strength, solver="liblinear", random_state=0)
    several = problem_type == "multi_label" or targets.max() > 1
    return (OneVsRestClassifier(regression) if several else regression).fit(features, targets)


def _score(predicted: Any, targets: Any, dataset: Dataset) -> dict[str, Any]:
    if dataset.problem_type == "multi_label":
        return score_decisions(
            np.asarray(predicted, dtype=bool), targets.astype(bool), dataset.labels
        )
    return score_classes(predicted, targets, dataset.labels)
