"""resource."""
