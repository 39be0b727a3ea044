"""The pytest plugin of dradriver: fixtures for driver authors."""
