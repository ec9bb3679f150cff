"""One of each family, over coordinates of every kind."""

from functools import partial

from erlangen.distributions import (
    Categorical,
    Dirac,
    Gaussian,
    GlobalUniform,
    Joint,
    MeanFieldUniform,
    Mixture,
    RealNVP,
    SplineFlow,
    StudentT,
)

CONTEXT = 5

FAMILIES = {
    "dirac": Dirac,
    "gaussian": Gaussian,
    "homoscedastic": partial(Gaussian, homoscedastic=True),
    "hidden": partial(Gaussian, hidden=(8, 8)),
    "student": StudentT,
    "truncated": partial(StudentT, truncation=4.0),
    "global": GlobalUniform,
    "mean field": MeanFieldUniform,
    "mixture": partial(Mixture, components=3),
    "realnvp": partial(RealNVP, layers=4, width=16, components=3),
    "squashed": partial(RealNVP, layers=4, width=16, components=3, limit=None, squash=6.0),
    "spline": partial(SplineFlow, layers=3, width=16),
}

COORDINATES = {
    "1": (1, {}),
    "circle": (1, {"periodic": (True,)}),
    "2": (2, {}),
    "box": (2, {"bounds": ((-1.0, -2.0), (1.0, 2.0))}),
    "cylinder": (2, {"bounds": ((-1.0, -2.0), (1.0, 2.0)), "periodic": (True, False)}),
    "5": (
        5,
        {"bounds": (-1.0, 2.0), "periodic": (True, False, False, True, False), "origin": [0.0, 2.0, 0.5, 1.0, -1.0]},
    ),
}

JOINTS = {
    "box and circle": lambda: Joint(Gaussian(1, CONTEXT, bounds=(-1.0, 2.0)), StudentT(1, CONTEXT, periodic=(True,))),
    "indices and flow": lambda: Joint(
        Categorical([[0.0], [1.0]], CONTEXT),
        RealNVP(3, CONTEXT, layers=4, width=16, components=3, bounds=(-1.0, 2.0), periodic=(True, False, False)),
    ),
    "indices and indices": lambda: Joint(
        Categorical([[0.0], [1.0]], CONTEXT), Categorical([[0.0, 1.0], [0.5, -1.0], [1.0, 2.0]], CONTEXT, hidden=(8,))
    ),
    "nested": lambda: Joint(
        MeanFieldUniform(2, CONTEXT),
        Joint(Categorical([[0.0], [1.0], [2.0]], CONTEXT), Mixture(2, CONTEXT, components=3)),
    ),
    "points": lambda: Joint(Dirac(1, CONTEXT, bounds=(-1.0, 1.0)), Dirac(2, CONTEXT)),
}

# What a user gets by name: a function that builds it, for each family and kind of coordinates.
CONDITIONALS = {
    f"{family}, {where}": partial(cls, features, CONTEXT, **kwargs)
    for family, cls in FAMILIES.items()
    for where, (features, kwargs) in COORDINATES.items()
} | {
    "categorical": partial(Categorical, [[0.0, 1.0], [0.5, -1.0], [1.0, 2.0]], CONTEXT),
    "indices": partial(Categorical, [[0.0], [1.0], [2.0], [3.0]], CONTEXT, hidden=(8,)),
    **{f"joint, {what}": build for what, build in JOINTS.items()},
}
