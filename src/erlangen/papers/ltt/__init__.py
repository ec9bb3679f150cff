"""Learning to Transform for Generalizable Instance-wise Invariance (Singhal, Esteves, Makadia, Yu; 2023)."""
