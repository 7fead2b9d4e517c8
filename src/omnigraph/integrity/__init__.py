"""The validation rules over Arrow batches."""
