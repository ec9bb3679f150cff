"""Learn from data which transformations leave an input's meaning unchanged.

Submodules load when they are first used: ``import erlangen`` itself imports neither torch nor anything heavier.
"""

import importlib
import pkgutil
from types import ModuleType

__version__ = "0.1.0"


def _submodules() -> set[str]:
    return {module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")}


def __getattr__(name: str) -> ModuleType:
    if name in _submodules():
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(globals().keys() | _submodules())
