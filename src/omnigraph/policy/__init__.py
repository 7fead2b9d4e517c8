"""Policies: files of rules, Cedar behind `decide`, and the gate that asks them."""
