"""Pages of the ledger and of the gallery."""
