"""Probabilistic Spatial Transformer Networks (Schwöbel et al., 2022)."""
