"""What trains a model: from a batch to named scalar losses."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from numbers import Integral

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..models import Averaged, Prediction
from ..transforms import Transform
from ..utils.compiling import uncompiled
from ..utils.shapes import check_kind, check_tensor, check_true, check_weight, describe, eager_on_cpu
from .equivariance import Equivariance

__all__ = [
    "AveragedObjective",
    "Counted",
    "Objective",
    "accuracy",
    "groups_of",
    "labelled",
    "over_processes",
    "trainable",
]


class Objective(nn.Module):
    """Owns what it trains. `forward(batch)` returns named scalars: "loss" is differentiated, the rest is logged."""

    def __call__(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """Calls `forward`, after a check that it is given a batch: a bare tensor's first input would pass for all."""
        if not isinstance(batch, tuple | list):
            raise ValueError(f"batch: received {describe(batch)}; accepted is (x,) or (x, y)")
        if any(isinstance(part, Tensor) and part.shape[:1] == (0,) for part in batch):  # a mean over none would be NaN
            raise ValueError("batch: received no inputs; accepted is at least one")
        return self.checked(super().__call__(batch))

    def checked(self, losses: object) -> dict[str, Tensor]:
        """What `forward` returned, when it is named scalars with a loss among them; else a `ValueError`."""
        accepted = 'a dict of scalar tensors by name, with "loss" among them'
        if not isinstance(losses, dict) or "loss" not in losses:
            got = f"the losses {sorted(losses)}" if isinstance(losses, dict) else describe(losses)
            raise ValueError(f"objective: received {got} from forward; accepted is {accepted}")
        for name, value in losses.items():
            if not isinstance(value, Tensor) or value.numel() != 1:
                raise ValueError(f"objective: received {describe(value)} as {name!r}; accepted is {accepted}")
        if taken := sorted({"epoch", "kind", "rate", "seconds", "step"} & set(losses)):
            raise ValueError(
                f"objective: received the losses {taken}; accepted are names that are no column of the log"
            )
        return losses

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """The losses of a batch, (x, y) or (x,)."""
        raise NotImplementedError(f"{type(self).__name__} does not implement forward")

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """What is trained, by the optimiser that trains it."""
        raise NotImplementedError(f"{type(self).__name__} does not implement parameter_groups")

    def branch(self) -> Hashable:
        """What the next step of training decides on the host: steps for which it is equal run the same operations."""
        return None

    def counted(self) -> None:
        """Called after a step that was replayed from a graph, where `forward` did not run."""

    def judged(self) -> bool:
        """Whether a validation can already judge what is trained; it cannot in a first stage with another loss."""
        return True


class Counted(Objective):
    """An objective that counts its steps of training, and decides by their number."""

    step: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("step", torch.zeros((), dtype=torch.long))
        self._steps: int | None = None

    def counted(self) -> None:
        """Counts a step on the host."""
        self._steps = self.taken() + 1

    @uncompiled
    def count(self) -> None:
        """Counts a step, on the host and on the device."""
        self.counted()
        self.step += 1

    def taken(self) -> int:
        """The steps so far. The buffer is for checkpoints; its copy on the host is for decisions without a wait."""
        if self._steps is None:
            self._steps = int(self.step)
        return self._steps

    def _load_from_state_dict(self, *args: object, **kwargs: object) -> None:
        super()._load_from_state_dict(*args, **kwargs)  # pyright: ignore[reportArgumentType]
        self._steps = None


class AveragedObjective(Counted):
    r"""The cross-entropy of an `Averaged` classifier; subclasses add what keeps its distribution wide.

    Args:
        averaged: the model.
        burn_in: the number of first steps in which only the classifier is trained, on inputs as they are.
        original: the weight of the cross-entropy of the untransformed input, which is added.
        together: False: the mean cross-entropy over samples (LTT equation 10), to which an `identity` view of the model
            adds nothing: its weight is `original`. True: the cross-entropy of the averaged prediction, of all views, in
            the space in which the model averages.
        equivariance: a price on a conditional that does not turn with its inputs, over the model's own transform; there
            is none if None.
    """

    def __init__(
        self,
        averaged: Averaged,
        *,
        burn_in: int = 0,
        original: float = 0.0,
        together: bool = False,
        equivariance: Equivariance | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(burn_in, Integral) or burn_in < 0:
            raise ValueError(f"burn_in: received {burn_in!r}; accepted is a number of steps >= 0")
        check_kind("averaged", averaged, Averaged)
        if equivariance is not None:
            _check_equivariance(equivariance, averaged.transform)
        self.averaged, self.together = averaged, together
        self.burn_in, self.original = int(burn_in), check_weight("original", original)
        self.equivariance = equivariance

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """The classifier's parameters and the conditional's, see `groups_of`."""
        return groups_of(self.averaged.model, self.averaged.conditional)

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """The loss and its parts."""
        x, y = labelled(batch)
        if self.training and self._burns():
            return self.plain(x, y)
        prediction = self.averaged(x)
        check_within(y, prediction.log_probs)
        losses = {"cross_entropy": self.cross_entropy(prediction, y), "accuracy": accuracy(prediction.log_probs, y)}
        losses["edge"] = self.edge(prediction.v)
        loss = losses["cross_entropy"]
        if self.original:
            losses["original"] = self.plain(x, y)["loss"]
            loss = loss + self.original * losses["original"]
        if self.equivariance is not None:
            check_spread(prediction.q, "equivariance")
            price, parts = self.equivariance(self.averaged.conditional, x, prediction)
            loss, losses = loss + price, losses | parts
        extra, parts = self.width(prediction)
        return {"loss": loss + extra, **losses, **parts}

    def width(self, prediction: Prediction) -> tuple[Tensor, dict[str, Tensor]]:
        """What is added to the loss so that the distribution stays wide, and what of it is logged."""
        raise NotImplementedError(f"{type(self).__name__} does not implement width")

    def cross_entropy(self, prediction: Prediction, y: Tensor) -> Tensor:
        r"""The mean over the batch, of samples one by one or together.

        Where a choice was drawn, the gradient of its probability goes through the weights. For samples one by one, that
        gradient is multiplied with the cross-entropy less the mean of other inputs. As this mean does not depend on the
        choice, the expectation stays the same ($\mathbb{E}\,\nabla \log p = 0$), and there is far less noise.
        """
        if self.together:
            return F.nll_loss(prediction.log_probs, y)
        views, weights = prediction.views[: len(prediction.v)], prediction.log_weights.exp()
        each = F.cross_entropy(views.flatten(0, 1), y.repeat(len(views)), reduction="none").view(views.shape[:2])
        own = (weights * each).sum(0)
        if not torch.is_grad_enabled():
            return own.mean()
        whole, count = summed(torch.stack((own.sum(), own.new_full((), len(own)))))
        others = (whole - own.detach()) / (count - 1).clamp(min=1)
        return (own - ((weights - weights.detach()) * others).sum(0)).mean()

    def plain(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """The cross-entropy of inputs as they are."""
        logits = self.averaged.classify(self.averaged.signal(x))
        check_within(y, logits)
        return {"loss": F.cross_entropy(logits, y), "accuracy": accuracy(logits, y)}

    def edge(self, v: Tensor) -> Tensor:
        """The share of the coordinates on a line that lie at their bounds, within a thousandth of the range, `()`."""
        return self._share((self._room(v).abs() < 1e-3).to(v.dtype))

    def beyond(self, v: Tensor) -> Tensor:
        """The share of the coordinates on a line that lie beyond their bounds, `()`."""
        return self._share((self._room(v) < 0).to(v.dtype))

    @torch.no_grad()
    def _room(self, v: Tensor) -> Tensor:
        """How far coordinates are from the nearer bound, as a share of the range; negative beyond it."""
        low, high = self.averaged.transform.bounds
        return torch.minimum(v - low, high - v) / (high - low)

    def _share(self, those: Tensor) -> Tensor:
        transform = self.averaged.transform
        kinds = zip(transform.periodic, transform.supports, strict=True)
        line = [i for i, (periodic, support) in enumerate(kinds) if not (periodic or support.is_discrete)]
        return torch.stack([those[..., i] for i in line]).mean() if line else those.new_zeros(())

    def branch(self) -> Hashable:
        """Whether the next step belongs to the burn-in."""
        return self.taken() < self.burn_in

    @uncompiled
    def _burns(self) -> bool:
        """Whether this step belongs to the burn-in; counts it."""
        burns = self.taken() < self.burn_in
        self.count()
        return burns


def labelled(batch: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Inputs and their labels, checked."""
    if len(batch) != 2:
        raise ValueError(f"batch: received {len(batch)} tensors; accepted are inputs and their labels")
    x, y = batch
    check_tensor("batch", x, "inputs (B, ...) and their labels", isinstance(x, Tensor) and x.ndim > 0)
    ok = isinstance(y, Tensor) and y.shape == x.shape[:1] and not y.is_floating_point()
    return x, check_tensor("batch", y, f"integer labels ({len(x)},)", ok).long()


def check_within(y: Tensor, scores: Tensor) -> None:
    """Raises a `ValueError` for labels without a score, where that can be seen without a synchronisation.

    A single score is refused too: its softmax is 1, so that the loss is 0 whatever is learned.
    """
    check_tensor("model", scores, "a classifier with logits (N, K) of two classes or more", scores.shape[-1] > 1)
    if eager_on_cpu(y):
        accepted = f"labels from 0 to {scores.shape[-1] - 1}"
        check_true("batch", (y >= 0) & (y < scores.shape[-1]), "labels that the classifier has no score for", accepted)


def check_spread(q: object, name: str = "averaged") -> None:
    """Raises a `ValueError` for points without a density, which no weight of an entropy makes wider."""
    if getattr(q, "degenerate", False):
        accepted = "one with a density, such as RealNVP; PSTN trains points"
        raise ValueError(
            f"{name}: received a conditional of points without a density (a Dirac); accepted is {accepted}"
        )


def _check_equivariance(equivariance: object, transform: Transform) -> None:
    """Raises a `ValueError` unless it is an `Equivariance` over what the model transforms with."""
    if not isinstance(equivariance, Equivariance):
        raise ValueError(f"equivariance: received {describe(equivariance)}; accepted is an Equivariance or None")
    group, v = equivariance.moves.group, transform.bounds
    # Until training begins, its group may lie on another device than the model.
    same = group.names == transform.names
    if not same or not torch.equal(group.element(v.to(group.bounds.device)).to(v.device), transform.element(v)):
        got = f"one of {' '.join(repr(group).split())}"
        accepted = f"one of what the model transforms with, {' '.join(repr(transform).split())}"
        raise ValueError(f"equivariance: received {got}; accepted is {accepted}")


def groups_of(model: nn.Module, conditional: nn.Module | None = None) -> dict[str, list[nn.Parameter]]:
    """The trained parameters of a classifier and of a conditional, a group each.

    Where a classifier has `scalar_parameters`, as a `FixupResNet` does, these are a group of their own. Layers that
    both use, such as those that also encode inputs for the conditional, count as the classifier's.
    """
    scalars, own = list(getattr(model, "scalar_parameters", list)()), list(model.parameters())
    known, shared = ({id(p) for p in part} for part in (scalars, own))
    others = [p for p in own if id(p) not in known]
    learned = [] if conditional is None else [p for p in conditional.parameters() if id(p) not in shared]
    parts = {"classifier": others, "scalars": scalars, "conditional": learned}
    return {name: trained for name, part in parts.items() if (trained := trainable(part))}


def summed(value: Tensor) -> Tensor:
    """The sum over all processes that train together, without a gradient."""
    value = value.detach().clone()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.all_reduce(value)
    return value


def over_processes(value: Tensor) -> Tensor:
    """The mean of a number over all processes that train together, without a gradient, so that all decide alike."""
    whole = summed(value)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        whole /= torch.distributed.get_world_size()
    return whole


def accuracy(scores: Tensor, y: Tensor) -> Tensor:
    """The share of inputs whose greatest score is that of their label, `()`."""
    return (scores.argmax(-1) == y).float().mean()


def trainable(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """The parameters that are not frozen."""
    return [p for p in parameters if p.requires_grad]
