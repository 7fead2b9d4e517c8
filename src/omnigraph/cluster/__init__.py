"""Clusters: files that describe what should be deployed, and a ledger of what is deployed.

Programs call the package itself: `omnigraph.cluster("deploy/")`.
"""

from omnigraph.cluster.entry import make_callable

_package = make_callable(__name__)
