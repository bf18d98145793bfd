"""The four labs: what each shows for a state, and what it does when the state changes."""
