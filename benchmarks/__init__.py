"""Figures, never verdicts: what dradriver costs, beside a Go driver measured in the same run."""
