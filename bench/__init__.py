"""Measurements of the relay beside others that do the same job, in the same run."""
