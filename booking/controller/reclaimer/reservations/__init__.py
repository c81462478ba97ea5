"""Reservation pods: GPUs of nodes with another device plugin are opened for shares, and closed again."""
