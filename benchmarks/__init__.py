"""Speed, measured as ratios inside one run and committed with the environment they were measured in."""
