"""Engines that run packed rows."""
