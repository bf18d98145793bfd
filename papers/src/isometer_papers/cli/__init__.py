"""Commands of the companion: `isometer claims` and `isometer reproduce`."""
