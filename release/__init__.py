"""Build and check what a release publishes: docs/release.md."""
