"""Data sets, and the picture and the series that are drawn in code."""

from .pictures import LABELS, landmarks, picture, picture_mask, series

__all__ = ["LABELS", "landmarks", "picture", "picture_mask", "series"]
