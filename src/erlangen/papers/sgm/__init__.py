"""A generative model of symmetry transformations (Allingham et al. 2024): prototypes and natural variations."""
