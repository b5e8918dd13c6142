"""The exercises, a file for each lesson; importing this package enters them all."""

import importlib
import pkgutil

from ..exercise import EXERCISES

for _lesson in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_lesson.name}")

__all__ = ["EXERCISES"]
