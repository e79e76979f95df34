"""What others may write with the package."""
