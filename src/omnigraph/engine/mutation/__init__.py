"""Mutations: plans that insert, update and delete rows, staged for one commit."""
