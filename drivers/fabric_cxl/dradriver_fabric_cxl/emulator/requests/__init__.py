"""Answers HTTP requests: reads, sessions, accounts, events, and the doors for tests."""
