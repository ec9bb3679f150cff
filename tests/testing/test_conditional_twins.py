"""Broken twins: for every property of a conditional that is checked, one without it, on which the check must fail."""

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.distributions import Normal

from erlangen.distributions import Categorical, Gaussian, Mixture, Points, RealNVP
from erlangen.distributions.bounded import BoundedDensity
from erlangen.distributions.categorical import CategoricalDensity
from erlangen.distributions.circle import log_normal, wrap
from erlangen.distributions.gaussian import GaussianDensity
from erlangen.distributions.mixture import MixtureDensity
from erlangen.testing import check_conditional

TWINS = []


def twin(match, family=None):
    """Registers a conditional, or a density that is put in the place of a family's, on which the check fails so."""

    def register(cls):
        build = cls if family is None else returning(family, cls)
        TWINS.append(pytest.param(build, match, id=cls.__name__))
        return cls

    return register


def returning(family, density):
    """Makes a member of a family whose distributions are of another class."""

    def build():
        net = family()
        net.register_forward_hook(lambda net, x, q: setattr(q, "__class__", density))
        return net

    return build


class Line(Gaussian):
    def __init__(self, **kwargs):
        super().__init__(2, 3, **kwargs)


class Couplings(RealNVP):
    def __init__(self):
        super().__init__(4, 3, components=2, layers=4, width=8, bounds=(-1.0, 1.0))


Box = partial(Line, bounds=(-1.0, 2.0))
Circle = partial(Gaussian, 1, 3, periodic=(True,))
Seam = partial(Circle, origin=[3.1])  # where the two ends of an angle meet
SeamMixture = partial(Mixture, 1, 3, components=8, scatter=0.5, periodic=(True,), origin=[math.pi])
Body = partial(Mixture, 3, 3, components=2, periodic=(False, True, False))
Four = partial(Categorical, [[0.0], [1.0], [2.0], [3.0]], 3)


@twin("not a Density")
class ReturnsSomethingElse(Line):
    def forward(self, x):
        return Normal(x, 1.0)


@twin(r"batch_shape is \(1,\) for 4 inputs")
class ForgetsTheBatch(Line):
    def forward(self, x):
        return super().forward(x[:1])


@twin(r"density: received GaussianDensity.* event_shape: \(2,\)\); accepted is a Density")
class MiscountsCoordinates(Line):
    def __init__(self):
        super().__init__()
        self.features = 3


@twin(r"samples \(3,\) have shape \(4, 3, 2\)", Line)
class PutsSamplesSecond(GaussianDensity):
    def rsample(self, sample_shape=(), generator=None):
        v = super().rsample(sample_shape, generator)
        return v.transpose(0, 1) if v.ndim == 3 else v


@twin("samples are torch.float32", Line)
class SamplesInSinglePrecision(GaussianDensity):
    def rsample(self, sample_shape=(), generator=None):
        return super().rsample(sample_shape, generator).float()


@twin("samples are not finite", Line)
class Overflows(GaussianDensity):
    def rsample(self, sample_shape=(), generator=None):
        return super().rsample(sample_shape, generator) * math.inf


@twin("for an empty batch")
class FillsAnEmptyBatch(Line):
    def forward(self, x):
        return super().forward(x if len(x) else x.new_zeros(1, 3))


@twin("outside the support", Box)
class SquashesToWiderBounds(BoundedDensity):  # as the published tanh of width 1.5
    def sample(self, sample_shape=(), generator=None):
        return 15 * super().sample(sample_shape, generator)


@twin("no finite log-density", Line)
class LosesSamples(GaussianDensity):
    def log_prob(self, value):
        return super().log_prob(value).where(value[..., 0] < self.loc[..., 0], -math.inf)


@twin("mass beyond the bounds", Box)
class ClampsOutsideTheDensity(BoundedDensity):
    def log_prob(self, value):
        return super().log_prob(value.clamp(self.low, self.high))


@twin("weights of quadrature don't sum to 1", Line)
class WeighsEachPointOne(GaussianDensity):
    def draw(self, noise, *, pathwise=True):
        points = super().draw(noise, pathwise=pathwise)
        return points._replace(log_weights=0 * points.log_weights)


@twin("mismatching shapes", Line)
class KeepsADimension(GaussianDensity):
    def draw(self, noise, *, pathwise=True):
        points = super().draw(noise, pathwise=pathwise)
        return points._replace(log_q=points.log_q.unsqueeze(-1))


@twin("log_prob of quadrature's points differs", Box)
class TakesTheSlopeAtTheOutput(BoundedDensity):  # the published inverse of tanh
    def log_prob(self, value):
        return super().log_prob(value) + self._log_slope(self._free(value)) - self._log_slope(value)


@twin("log_prob of quadrature's points differs", Line)
class WidensTheScale(
    GaussianDensity
):  # the published normal, whose density has a scale that is 1e-3 greater than that of its samples
    def log_prob(self, value):
        return log_normal(value - self.loc, self.scale + 1e-3).sum(-1)


@twin("log_prob of quadrature's points differs", Seam)
class HasASeam(GaussianDensity):  # right after whole turns, but what passes π is lost
    def log_prob(self, value):
        return log_normal(wrap(value) - self.loc, self.scale).sum(-1)


@twin(r"expand has batch_shape \(4,\)", Line)
class DoesNotExpand(GaussianDensity):
    def expand(self, batch_shape, _instance=None):
        return self


@twin("expand has samples of a wrong shape", Line)
class SamplesAsBefore(GaussianDensity):
    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape)
        new.rsample = self.rsample
        return new


@twin("after expand, entropy does not have the shape", Line)
class ForgetsAParameter(GaussianDensity):
    batched = ("loc",)


@twin("expand changes the density", Line)
class WidensWithTheBatch(GaussianDensity):
    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape)
        new.scale = 1.001 * new.scale
        return new


@twin("manual_seed does not determine", Line)
class SeedsItself(GaussianDensity):
    def draw(self, noise, *, pathwise=True):
        noise.generator = torch.Generator()
        noise.generator.seed()
        return super().draw(noise, pathwise=pathwise)


@twin("a generator does not determine the samples", Line)
class IgnoresTheGenerator(GaussianDensity):
    def draw(self, noise, *, pathwise=True):
        noise.generator = None
        return super().draw(noise, pathwise=pathwise)


@twin("the global generator is used too", Line)
class UsesBothGenerators(GaussianDensity):
    def draw(self, noise, *, pathwise=True):
        torch.rand(())
        return super().draw(noise, pathwise=pathwise)


@twin("does not determine rsample_and_log_prob", Line)
class IgnoresItOnThePath(GaussianDensity):
    def rsample_and_log_prob(self, sample_shape=(), generator=None):
        return super().rsample_and_log_prob(sample_shape)


@twin("rsample is not what rsample_and_log_prob draws", Box)
class ForgetsTheBounds(BoundedDensity):
    def rsample(self, sample_shape=(), generator=None):
        return self.base.rsample(sample_shape, generator)


@twin("no gradient reaches scale")
class CutsTheGraph(Line):
    def density(self, h):
        q = super().density(h)
        return GaussianDensity(q.loc, q.scale.detach())


@twin("gradient of loc.last.weight is not finite")
class HasAnInfiniteSlope(Line):
    def density(self, h):
        q = super().density(h)
        return GaussianDensity(q.loc + (q.loc - q.loc).sqrt(), q.scale)


@twin("gradient of unused is zero")
class HasNoUseForAParameter(Line):
    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.ones(()))

    def density(self, h):
        q = super().density(h)
        return GaussianDensity(q.loc + 0 * self.unused, q.scale)


@twin("v of an input depends on another")
class CentresTheBatch(Line):  # as batch normalisation does
    def density(self, h):
        return super().density(h - h.mean(0))


@twin("log_q of an input depends on another", Line)
class LeaksIntoTheDensity(GaussianDensity):
    def _log_prob(self, delta):
        return super()._log_prob(delta) + 1e-3 * self.loc.mean()


@twin("log_weights of an input depends on another", Line)
class LeaksIntoTheWeights(GaussianDensity):
    def draw(self, noise, *, pathwise=True):
        v, log_weights, log_q = super().draw(noise, pathwise=pathwise)
        leak = 1e-3 * v.sum((-1, -2)).unsqueeze(-1)
        return Points(v, (log_weights + leak).log_softmax(0) if len(v) == 6 else log_weights, log_q)


@twin("loading a state_dict")
class LosesItsMasks(Couplings):  # which coordinates move is drawn at construction, and not saved
    def __init__(self):
        super().__init__()
        for name in ("reads", "writes"):
            self.conditioners.register_buffer(name, self.conditioners.get_buffer(name), persistent=False)


@twin("not everything that comes out is float32")
class ComputesInDouble(Line):
    def density(self, h):
        q = super().density(h)
        return GaussianDensity(q.loc.double(), q.scale.double())


@twin(r"in float32, log_prob\(v\) is not what came", Line)
class CancelsDigits(GaussianDensity):
    def log_prob(self, value):
        return self._log_prob((value + 1e5) - (self.loc + 1e5)).sum(-1)


@twin("float32 and float64 disagree")
class CancelsDigitsOfTheMean(Line):
    def density(self, h):
        q = super().density(h)
        return GaussianDensity(q.loc + 1e5 - 1e5, q.scale)


@twin("float32 and float64 disagree", Four)
class CancelsDigitsOfTheLogits(CategoricalDensity):
    @property
    def log_probs(self):
        return (self.logits + 1e5 - 1e5).log_softmax(-1)


@twin("without saying so: bad input")
class RefusesObscurely(Line):
    def encode(self, x):
        if x.isnan().any():
            raise ValueError("bad input")
        return super().encode(x)


@twin("NaN in the input is accepted")
class AcceptsNaN(Line):
    def encode(self, x):
        return super().encode(x.nan_to_num())


@twin("entropy_estimate accepts 0 samples", Line)
class AcceptsNoSamples(GaussianDensity):
    def entropy_estimate(self, n, generator=None):
        return super().entropy_estimate(max(n, 1), generator)


@twin("0 samples are refused without saying so", Line)
class RefusesNoSamplesObscurely(GaussianDensity):
    def mode_estimate(self, n, generator=None):
        if n < 1:
            raise ValueError("too few")
        return super().mode_estimate(n, generator)


@twin("not the log-density that came with v", Line)
class MisstatesTheDensityOnThePath(GaussianDensity):
    def draw(self, noise, *, pathwise=True):
        points = super().draw(noise, pathwise=pathwise)
        return points._replace(log_q=points.log_q + 1e-3 * pathwise)


@twin("a whole turn", Circle)
class TakesTheCircleForALine(GaussianDensity):
    def log_prob(self, value):
        return log_normal(value - self.loc, self.scale).sum(-1)


@twin("entropy_estimate has a wrong shape", Line)
class AveragesTheEntropy(GaussianDensity):
    def entropy_estimate(self, n, generator=None):
        value, error = super().entropy_estimate(n, generator)
        return value.mean(), error.mean()


@twin("entropy is off its estimate", Line)
class ForgetsHalfANat(GaussianDensity):
    def entropy(self):
        return super().entropy() - 0.5


@twin("mean is off its estimate", SeamMixture)
class AveragesAngles(MixtureDensity):
    @property
    def mean(self):
        return (self.logits.softmax(-1).unsqueeze(-1) * wrap(self.loc)).sum(-2)


@twin("more density elsewhere than at the mode", Line)
class MisplacesTheMode(GaussianDensity):
    @property
    def mode(self):
        return self.mean + self.scale


@twin("log-det is off that of the autograd Jacobian")
class MisscalesTheLogDet(Couplings):
    def _slope(self, z, s):
        return 1.001 * s


@twin("log-det is off that of the autograd Jacobian", Box)
class KeepsTheLogDetFinite(BoundedDensity):  # the published tanh, with 1e-6 inside the logarithm
    def _log_slope(self, z):
        return ((1 + 1e-6 - z.tanh() ** 2) * (self.high - self.low) / 2).log().sum(-1)


@twin(r"the density integrates to \[1\.0(1|099)", Line)
@twin(r"the density integrates to \[1\.0(1|099)", Circle)
class HasMassToSpare(GaussianDensity):
    def _log_prob(self, delta):
        return super()._log_prob(delta) + math.log(1.01) / len(self.periodic)


@twin(r"the density integrates to \[1\.1", Body)
class HasMassToSpareInSpace(MixtureDensity):
    def draw(self, noise, *, pathwise=True):
        points = super().draw(noise, pathwise=pathwise)
        return points._replace(log_q=self.log_prob(points.v))

    def log_prob(self, value):
        return super().log_prob(value) + math.log(1.15)


@twin("samples are not distributed as the density says", Line)
class SamplesTooWide(GaussianDensity):
    factor = 2.0

    def draw(self, noise, *, pathwise=True):
        wide = GaussianDensity(self.loc, self.factor * self.scale, self.periodic)
        points = wide.draw(noise, pathwise=pathwise)
        return points._replace(log_q=self.log_prob(points.v))

    def entropy(self):
        raise NotImplementedError

    variance = property(entropy)


@twin("samples are not distributed as the density says", Circle)
class SamplesTooNarrow(SamplesTooWide):
    factor = 0.5


@twin("samples are not distributed as the density says", Body)
class SamplesElsewhere(MixtureDensity):
    def draw(self, noise, *, pathwise=True):
        points = super().draw(noise, pathwise=pathwise)
        v = points.v + 0.5 * self.scale[..., 0, :]
        return points._replace(v=v, log_q=self.log_prob(v))

    @property
    def mean(self):
        raise NotImplementedError


@twin("the gradient of an expectation is biased", Line)
@twin("the gradient of an expectation is biased", Circle)
class CutsTheSamples(GaussianDensity):
    def draw(self, noise, *, pathwise=True):
        points = super().draw(noise, pathwise=pathwise)
        v = points.v.detach()
        return points._replace(v=v, log_q=self.log_prob(v))


@twin("the gradient of an expectation is biased", partial(Mixture, 1, 3, components=2, scatter=3.0))
class CutsTheWeights(MixtureDensity):
    def draw(self, noise, *, pathwise=True):
        points = super().draw(noise, pathwise=pathwise)
        return points._replace(log_weights=points.log_weights.detach())


@twin("variance is not that of samples", Line)
class DoublesTheVariance(GaussianDensity):
    @property
    def variance(self):
        return 2 * super().variance


@twin("median is not in the middle", Line)
@twin("median is not in the middle", Circle)
class MisplacesTheMedian(GaussianDensity):
    @property
    def median(self):
        return self.loc + 0.3 * self.scale


@twin(r"periodic is \(True, False\), not \(False, False\)")
class CallsALineACircle(Line):
    def forward(self, x):
        q = super().forward(x)
        q.periodic = (True, False)
        return q


@pytest.mark.parametrize(("build", "match"), TWINS)
def test_broken_twin_is_caught(build, match):
    with pytest.raises(AssertionError, match=match):
        check_conditional(build(), build=build)


@pytest.mark.parametrize("family", [Line, Couplings, Box, Circle, Seam, SeamMixture, Body, Four])
def test_the_originals_pass(family):
    check_conditional(family(), build=family)
