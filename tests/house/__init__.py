"""What holds the shape of the package: its measures, the files that a request enters, what its users see."""
