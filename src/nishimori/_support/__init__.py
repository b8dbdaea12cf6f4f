"""What every stage uses and none is about: numbers, arrays of any library, disk, progress, optional packages, warnings."""
