"""Training: what a step is made of, what an epoch is cut into, and that it learns."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from model.data.dataset import Dataset, Example, Source
from model.errors import DataError, InvalidInputError
from model.tokenizer import TextEncoder, train_tokenizer
from model.training.batches import (
    EncodedTexts,
    cut_by_tokens,
    encode_texts,
    plan_epoch,
    windows_of,
)
from model.training.config import NetworkConfig, TextConfig, TrainConfig
from model.training.loop import Trainer, TrainState, copy_weights, hide_words, summed_loss
from model.training.optimizer import learning_rate, make_optimizer
from model.training.run import Recipe, finish, prepare, train

PLAIN = {"word_dropout": 0.0, "tokens_per_batch": 90, "patience": 0}


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_step_of_several_batches_equals_one_big_batch(trainer_of, multi_label) -> None:
    """Unequal batches on purpose: averaging their means would weigh texts differently."""
    indices = list(range(23))
    parts = [indices[:2], indices[2:13], indices[13:]]
    whole, in_parts = (trainer_of(TrainConfig(**PLAIN), multi_label) for _ in range(2))
    loss, num_tokens = whole.add_gradients([indices], 23)
    assert in_parts.add_gradients(parts, 23) == (pytest.approx(loss, rel=1e-6), num_tokens)
    for one, other in zip(whole.network.parameters(), in_parts.network.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad, atol=1e-6, rtol=0)


def test_decay_leaves_biases_norms_and_embeddings_alone(trainer_of) -> None:
    network = trainer_of(TrainConfig()).network
    decayed, kept = make_optimizer(network, TrainConfig(weight_decay=0.1)).param_groups
    name_of = {id(parameter): name for name, parameter in network.named_parameters()}
    decayed_names = {name_of[id(parameter)] for parameter in decayed["params"]}
    kept_names = {name_of[id(parameter)] for parameter in kept["params"]}
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.1, 0.0)
    assert "embeddings.tokens.weight" in kept_names
    assert all(name.endswith("weight") and "norm" not in name for name in decayed_names)
    assert decayed_names | kept_names == set(name_of.values())
    assert "layers.0.attention.qkv.weight" in decayed_names


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_the_learning_rate_rises_linearly_then_falls_to_nearly_nothing(schedule) -> None:
    config = TrainConfig(learning_rate=0.5, warmup=0.1, schedule=schedule)
    rates = [learning_rate(step, 100, config) for step in range(100)]
    assert rates[:10] == pytest.approx([0.05 * step for step in range(1, 11)])
    assert all(before > after > 0 for before, after in pairwise(rates[10:]))
    assert rates[10] == pytest.approx(0.5)
    middle = {"cosine": 0.25, "linear": 0.25}[schedule]
    assert rates[55] == pytest.approx(middle)
    quarter = {"cosine": 0.5 * 0.5 * (1 + math.cos(math.pi / 4)), "linear": 0.375}[schedule]
    assert learning_rate(10 + 22, 98, TrainConfig(
        learning_rate=0.5, warmup=10 / 98, schedule=schedule
    )) == pytest.approx(quarter)  # fmt: skip


def test_no_warm_up_starts_at_the_highest_rate() -> None:
    config = TrainConfig(learning_rate=0.5, warmup=0.0)
    assert learning_rate(0, 1, config) == learning_rate(0, 50, config) == 0.5


def test_an_epoch_has_every_text_once_in_batches_within_the_budget() -> None:
    lengths = np.random.default_rng(0).integers(1, 60, size=500).tolist()
    batches = plan_epoch(lengths, 128, seed=1, epoch=0)
    assert sorted(index for batch in batches for index in batch) == list(range(500))
    assert all(sum(lengths[index] for index in batch) <= 128 for batch in batches)
    assert batches == plan_epoch(lengths, 128, seed=1, epoch=0)
    assert batches != plan_epoch(lengths, 128, seed=1, epoch=1)
    assert batches != plan_epoch(lengths, 128, seed=2, epoch=0)


def test_texts_of_a_batch_are_of_like_length_and_batches_are_not_in_order() -> None:
    lengths = np.random.default_rng(0).integers(1, 60, size=2000).tolist()
    batches = plan_epoch(lengths, 512, seed=1, epoch=0)
    spread = [max(lengths[i] for i in batch) - min(lengths[i] for i in batch) for batch in batches]
    assert np.mean(spread) < 5
    longest = [max(lengths[index] for index in batch) for batch in batches]
    assert longest not in (sorted(longest), sorted(longest, reverse=True))


def test_a_text_longer_than_the_budget_is_a_batch_of_its_own() -> None:
    assert cut_by_tokens([0, 1, 2, 3], [3, 99, 3, 3], 8) == [[0], [1], [2, 3]]


def test_the_last_window_may_be_smaller() -> None:
    assert windows_of([[1], [2], [3]], 2) == [[[1], [2]], [[3]]]


def test_smoothing_spreads_the_target_over_all_classes() -> None:
    logits = torch.tensor([[2.0, 0.0, -1.0]])
    log_p = logits.log_softmax(-1)[0]
    expected = -(0.9 * log_p[0] + 0.1 * log_p.mean())
    got = summed_loss(logits, torch.tensor([0]), "single_label", 0.1)
    torch.testing.assert_close(got, expected)
    yes = torch.tensor([[1.0, 0.0, 1.0]])
    smoothed = torch.tensor([[0.95, 0.05, 0.95]])
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, smoothed)
    torch.testing.assert_close(summed_loss(logits, yes, "multi_label", 0.1), expected)


def test_hidden_words_are_ordinary_tokens_only() -> None:
    torch.manual_seed(0)
    input_ids = torch.tensor([[2, 3, 0, 1] + [7] * 1000])
    hidden = hide_words(input_ids, 0.3)
    assert hidden[0, :4].tolist() == [2, 3, 0, 1]
    assert set(hidden[0, 4:].tolist()) == {1, 7}
    assert (hidden[0, 4:] == 1).float().mean().item() == pytest.approx(0.3, abs=0.05)
    assert hide_words(input_ids, 0.0) is input_ids


@pytest.mark.parametrize("multi_label", [False, True])
def test_it_learns_which_token_tells_the_class(trainer_of, multi_label) -> None:
    config = TrainConfig(**PLAIN, epochs=25, learning_rate=3e-3, label_smoothing=0.0, warmup=0.05)
    trainer = trainer_of(config, multi_label)
    assert trainer.run()
    assert trainer.state.history[-1]["train_loss"] < 0.2 * trainer.state.history[0]["train_loss"]
    assert trainer.state.best_score > 0.8


class WeightsOfEpochs:
    """Keeps a copy of the weights after each epoch."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.copies: list[dict[str, torch.Tensor]] = []

    def on_step(self, state: TrainState, loss: float, rate: float, num_tokens: int) -> None:
        pass

    def on_epoch(self, state: TrainState) -> None:
        self.copies.append(copy_weights(self.trainer.network))


def test_early_stopping_restores_the_best_weights(trainer_of) -> None:
    config = TrainConfig(**{**PLAIN, "patience": 2}, epochs=30, learning_rate=0.02, warmup=0.9)
    trainer = trainer_of(config)
    weights = WeightsOfEpochs(trainer)
    assert trainer.run([weights])
    state = trainer.state
    assert state.epoch == len(weights.copies) == state.best_epoch + 2 < 30
    scores = [record["accuracy"] for record in state.history]
    assert state.best_score == max(scores) == scores[state.best_epoch - 1]
    name = "classifier.weight"
    left = trainer.network.state_dict()[name]
    assert torch.equal(left, weights.copies[state.best_epoch - 1][name])
    assert not torch.equal(left, weights.copies[-1][name])


def test_the_train_loss_of_an_epoch_is_the_mean_over_its_texts_only(trainer_of) -> None:
    """A network that hardly moves has the same loss in every epoch."""
    trainer = trainer_of(TrainConfig(**PLAIN, epochs=3, learning_rate=1e-9))
    trainer.run()
    losses = [record["train_loss"] for record in trainer.state.history]
    every_text = trainer.add_gradients([list(range(60))], 60)[0] / 60
    assert losses == pytest.approx([every_text] * 3, rel=1e-4)


def test_the_same_seed_gives_the_same_weights_and_another_does_not(trainer_of) -> None:
    config = {**PLAIN, "epochs": 1, "word_dropout": 0.2}
    results = []
    for seed in (1, 1, 2):
        trainer = trainer_of(TrainConfig(**config, seed=seed), dropout=0.2)
        trainer.run()
        results.append(trainer.network.classifier.weight.detach().clone())
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_a_loss_that_is_no_number_stops_training_with_advice(trainer_of) -> None:
    trainer = trainer_of(TrainConfig(**PLAIN))
    with torch.no_grad():
        trainer.network.classifier.bias.fill_(float("nan"))
    with pytest.raises(InvalidInputError, match="lower learning rate"):
        trainer.run()


def test_bfloat16_autocast_trains_on_the_processor_too(trainer_of) -> None:
    trainer = trainer_of(TrainConfig(**PLAIN, epochs=2, bf16="on"))
    assert trainer.run()
    assert all(value.dtype == torch.float32 for value in trainer.network.state_dict().values())


def test_predictions_come_back_in_the_order_of_the_texts(trainer_of) -> None:
    trainer = trainer_of(TrainConfig(**PLAIN))
    texts = trainer.task.train
    together = trainer.logits(texts)
    for index in (0, 17, 59):
        alone = trainer.logits(EncodedTexts([texts.input_ids[index]], texts.targets[:1], 0))
        np.testing.assert_allclose(together[index], alone[0], atol=1e-5)


def test_encoding_counts_what_was_cut_and_names_bad_rows() -> None:
    tokenizer = train_tokenizer(["one two three four five"], "words", 50)
    encoder = TextEncoder(tokenizer, 5)
    examples = [
        Example("one two three four five", None, ("a",), 1),
        Example("one", "two", ("b",), 2),
    ]
    texts = encode_texts(examples, encoder, ["a", "b"], "single_label", "head")
    assert texts.num_truncated == 1
    assert texts.lengths == [5, 5]
    assert texts.targets.tolist() == [0, 1]
    bad = [Example("\x00", None, ("a",), 7)]
    wordpiece = TextEncoder(train_tokenizer(["one two"], "wordpiece", 50), 9)
    with pytest.raises(DataError, match="row 7"):
        encode_texts(bad, wordpiece, ["a"], "single_label", "head")
    with pytest.raises(DataError, match=r"row 1 has the label 'a', and the classifier knows x, y"):
        encode_texts(examples, encoder, ["x", "y"], "single_label", "head")


NONSENSE = {
    TrainConfig: {
        "epochs": 0, "tokens_per_batch": 1.5, "accumulation_steps": -1, "learning_rate": 0.0,
        "weight_decay": -0.1, "beta2": 1.0, "warmup": 1.0, "schedule": "step", "clip_norm": -1.0,
        "label_smoothing": 1.0, "word_dropout": -0.1, "patience": -1, "metric": "loss",
        "seed": -1, "bf16": "yes", "device": "tpu", "checkpoint_steps": True,
    },
    TextConfig: {"tokenizer": "chars", "vocab_size": 4, "max_tokens": 2, "truncation": "middle"},
    NetworkConfig: {"preset": "huge", "dropout": 1.0, "pooling": "max"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "name", "value"),
    [(config, name, value) for config, bad in NONSENSE.items() for name, value in bad.items()],
)
def test_configs_refuse_nonsense_and_name_it(config, name, value) -> None:
    with pytest.raises(ValueError, match=name):
        config(**{name: value})


def smallest_case() -> Dataset:
    lines = ["中国 熊猫 可爱", "澳大利亚 袋鼠 强壮", "中国 长城 雄伟", "澳大利亚 悉尼 歌剧院"]
    examples = [Example(line, None, (str(n % 2),), n) for n, line in enumerate(lines)]
    return Dataset(
        train=examples,
        validation=examples,
        test=examples,
        labels=["0", "1"],
        problem_type="single_label",
        source=Source(name="four lines", fingerprints={}),
    )


def test_the_smallest_case_of_all_is_learned(tmp_path) -> None:
    sizes = {
        "hidden_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 128,
    }
    recipe = Recipe(
        text=TextConfig(tokenizer="words", max_tokens=16),
        network=NetworkConfig(overrides=sizes),
        train=TrainConfig(epochs=60, learning_rate=1e-3, patience=0),
    )
    prepared = prepare(smallest_case(), recipe, tmp_path)
    assert train(prepared, tmp_path)
    baseline = {"name": "none", "validation": {}, "test": {}}
    figures = {"accuracy": 0.5, "macro_f1": 0.5}
    baseline |= {"validation": figures, "test": figures}
    bundle = finish(prepared, tmp_path / "smallest", "smallest", baseline, "a test")
    assert bundle.manifest.metrics["test"]["confusion"] == [[2, 0], [0, 2]]
    assert bundle.manifest.metrics["test"]["accuracy"] == 1.0
    assert bundle.config.num_hidden_layers == 1
