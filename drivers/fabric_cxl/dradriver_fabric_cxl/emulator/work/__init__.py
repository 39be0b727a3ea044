"""Carries out requests that change the fabric."""
