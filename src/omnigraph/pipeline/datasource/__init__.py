"""The Spark data source `omnigraph`: read, stream and write."""
