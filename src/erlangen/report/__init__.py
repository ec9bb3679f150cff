"""Figures and self-contained pages."""

from .gallery import gallery
from .page import Image, Section, page

__all__ = ["Image", "Section", "gallery", "page"]
