"""What several test modules share and is no fixture: made-up reports and files, references, clients, the browser."""

from pathlib import Path

ROOT = Path(__file__).parents[2]  # of the repository
