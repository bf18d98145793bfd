"""Chapter 3 and Appendix B of the thesis: two samples in law, total variation, concentration (001)."""
