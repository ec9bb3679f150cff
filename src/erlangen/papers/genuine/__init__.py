"""On genuine invariance learning without weight-tying (Moskalev, Sepliarskaia, Bekkers, Smeulders; 2023)."""
