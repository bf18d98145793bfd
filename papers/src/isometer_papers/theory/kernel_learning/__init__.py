"""What conditioning means for learning with kernels: optimization, interpolation, statistical queries (004)."""
