"""What the papers prove of dual activations and kernel maps, in closed form: float64 and mpmath by one formula."""
