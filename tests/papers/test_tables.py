"""What the tables do besides training and averaging: evaluation in training mode, and crops."""

import importlib
from dataclasses import replace

import pytest
import torch

from erlangen.distributions import crop_table
from erlangen.papers.ltt import classify, recipes, table1_tiny, table2
from erlangen.papers.ltt.recipes import WAYS, recipe


@pytest.fixture(autouse=True)
def single():
    torch.set_default_dtype(torch.float32)


def model_of(table, method):
    objective = classify.build(table.build(table.SMOKE, method))
    return objective.averaged.eval()


@pytest.fixture
def pair():
    """A model as it is evaluated, and as the published code evaluates it."""
    model = model_of(table2, "flow")
    return model, table2.in_train_mode(model)


def test_train_mode_is_the_classifier_s_alone(pair):
    model, published = pair
    assert not any(module.training for module in model.modules())
    assert all(module.training for module in published.model.modules())
    assert not published.training
    assert not any(module.training for module in published.conditional.modules())
    assert (model.space, published.space) == ("prob", "logit")


def test_train_mode_has_batch_statistics(pair):
    """Without dropout: what an image is predicted to be depends on the others of its batch, there and only there."""
    x = torch.rand(6, 3, 32, 32)
    for model, depends in zip(pair, (False, True), strict=True):
        model.model.dropout.p = 0.0
        part, whole = model.classify(x[:3]), model.classify(x)[:3]
        assert torch.allclose(part, whole, atol=1e-4) != depends


def test_train_mode_drops_channels(pair):
    x = torch.rand(4, 3, 32, 32)
    model, published = pair
    assert torch.equal(model.classify(x), model.classify(x))
    assert not torch.allclose(published.classify(x), published.classify(x), atol=1e-3)


def test_train_mode_leaves_the_model_as_it_was(pair):
    model, published = pair
    before = {name: value.clone() for name, value in model.state_dict().items()}
    classify.predictions(published, torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8), 2)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert not torch.equal(published.model.group1[1].running_mean, model.model.group1[1].running_mean)


def test_train_mode_normalises_ten_views_of_a_hundred_images_together(pair):
    _, published = pair
    seen = []
    published.model.forward = lambda x: seen.append(len(x)) or torch.zeros(len(x), 10)
    images = torch.zeros(200, 3, 32, 32, dtype=torch.uint8)
    classify.predictions(published, images, 20, batch=table2.BATCH)
    assert seen == [1000] * 4


@pytest.mark.parametrize("method", ["instaaug-321", "flow-321"])
def test_a_choice_of_crops_starts_as_published_and_is_drawn(method):
    model = model_of(table1_tiny, method)
    q = model.conditional(torch.rand(2, 3, 64, 64))
    mass = q.log_probs.exp()
    sizes = torch.stack([mass[:, :256].sum(-1), mass[:, 256:320].sum(-1), mass[:, 320]], -1)
    favour = torch.tensor([0.0, 1.0, 3.0]).softmax(-1)
    torch.testing.assert_close(sizes, favour.expand(2, -1), atol=0.1, rtol=0)  # small scores move it a little
    assert not torch.allclose(mass[0], mass[1])
    model.eval_samples = 5
    prediction = model(torch.rand(2, 3, 64, 64))
    assert prediction.v.shape == (5, 2, 4)
    assert (q.log_prob(prediction.v) > -torch.inf).all()


def test_a_score_is_of_its_own_crop():
    conditional = model_of(table1_tiny, "flow-321").conditional
    scores = torch.zeros(1, 321)
    scores[0, 7] = 100.0
    assert torch.equal(conditional.density(scores).mode[0], crop_table()[0][7])
    assert not any(p.requires_grad for name, p in conditional.named_parameters() if name.startswith("head."))


@pytest.mark.parametrize("method", table1_tiny.SMOKE.methods)
def test_each_step_on_crops_is_finite_and_reaches_what_is_learned(method):
    config = table1_tiny.build(table1_tiny.SMOKE, method)
    objective, data = classify.build(config), classify.data_set(config, "train")
    groups = objective.parameter_groups()
    assert ("conditional" in groups) == WAYS[method].learned
    objective((data.x[:4], data.y[:4]))["loss"].backward()
    for group in groups.values():
        assert any(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in group)
        assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in group)


def test_views_are_mirrored_in_training_only():
    own = replace(classify.Training("tiny-imagenet-50").recipe, moments=((0.0,), (1.0,)))
    inputs, x = own.inputs(3), torch.rand(64, 3, 4, 5)
    assert torch.equal(inputs.eval()(x), x)
    same = (inputs.train()(x) == x).flatten(1).all(1)
    other = (inputs(x) == x.flip(-1)).flatten(1).all(1)
    assert 8 < same.sum() < 56  # fails once in 1e10
    assert 8 < other.sum() < 56


@pytest.mark.parametrize("name", ["table1_tiny", "table2"])
def test_nothing_of_the_paper_is_asked_of_other_data(name):
    table = importlib.import_module(f"erlangen.papers.ltt.{name}")
    asked = [claim.what for claim in table.PAPER if claim.asked != "–"]
    assert asked == ([] if name == "table1_tiny" else ["flow, 20 views"])


def test_beyond_thirty_views_none_is_rejected_and_the_model_stays_as_it_is():
    torch.set_default_dtype(torch.float32)
    model = classify.build(
        classify.Training("cifar10", "flow-code", source="glyphs", batch=4, samples=2, inputs=8)
    ).averaged.eval()
    seen = []
    model.register_forward_hook(lambda module, args, out: seen.append((len(out.views), module.rejection)))
    x = classify.data_set(classify.Training("cifar10", source="glyphs", inputs=4), "test").x
    for samples in (3, 31):
        classify.predictions(model, x, samples)
    assert seen == [(4, 1.0), (31, None)]
    assert (model.eval_samples, model.rejection, model.identity) == (2, 1.0, "eval")


def test_a_network_without_normalisation_has_a_limit_where_no_views_are_averaged():
    for method in ("none", "affine", "tta"):
        assert recipe("cifar10-lt", method).classifier.clip == recipes.LIMIT
        assert recipe("cifar10-conv13", method).classifier.clip is None
    assert recipe("cifar10-lt", "flow").classifier.clip is None


def test_what_is_over_before_the_compiler_is_not_compiled():
    for epochs, pays in ((0, True), (1, False)):
        training = classify.Training("cifar10", "none", source="glyphs", inputs=16, epochs=epochs)
        how = classify.how(classify.build(training), training, "cuda")
        assert (how.compile, how.graph) == (pays, pays)


def test_shorter_trainings_keep_the_epochs_without_transformations():
    for epochs, burn_in in ((0, 10), (60, 10), (30, 6), (1, 0)):
        assert classify.Training("cifar10-conv13", epochs=epochs).recipe.burn_in == burn_in


def test_the_scale_counts_views_where_there_are_some():
    short = classify.Training("cifar10-conv13", epochs=60, samples=4)
    assert short.scale == pytest.approx(0.3 * 4 / 5)
    assert replace(short, method="none").scale == pytest.approx(0.3)
    tiny = importlib.import_module("erlangen.papers.ltt.table1_tiny")
    assert {tiny.build(tiny.FULL, method).scale for method in tiny.PAPER_VALUES} == {1.0}


def test_few_inputs_are_of_all_classes():
    y = classify.data_set(classify.Training("cifar10", source="glyphs", inputs=64), "train").y
    whole = classify.data_set(classify.Training("cifar10", source="glyphs"), "train")
    assert len(y) == 64
    assert y.unique().tolist() == list(range(len(whole.classes)))


def test_conditionals_of_crops_begin_slowly_after_the_burn_in_and_the_others_do_not():
    for dataset, method, first in (("tiny-imagenet-50", "flow-321", 1e-4 / 2500), ("cifar10", "flow", 1e-4)):
        training = classify.Training(dataset, method, source="glyphs", inputs=16, batch=4, epochs=10)
        objective = classify.build(training)
        optimiser = classify.how(objective, training, "cpu").groups["conditional"]
        assert objective.burn_in == 8
        assert optimiser.lr * optimiser.schedule(8, 40, 4) == pytest.approx(first)
    assert recipe("cifar10-conv13", "augerino").rate == 100 * recipe("cifar10", "augerino").rate


def test_no_map_of_a_view_in_table_2_has_more_numbers_than_kernels_count(pair, monkeypatch):
    model, _ = pair
    widest = 32 * 32 * max(len(layer.weight) for layer in model.model.group1 if isinstance(layer, torch.nn.Conv2d))
    seen = []

    def predictions(way, x, samples, **kwargs):
        seen.append(min(way.largest, table2.BATCH * samples))
        return torch.zeros(len(x), 10).log_softmax(-1)

    monkeypatch.setattr(table2, "trained", lambda *args: model)
    monkeypatch.setattr(table2, "predictions", predictions)
    table2.run(replace(table2.SMOKE, methods=("flow",), samples=(20, 100)))
    assert seen == [2000, 4096, 1000, 1000]
    assert max(seen) * widest < 2**31
