"""From sums to parameters: the search for a temperature, Newton's method for several parameters, and their standard errors."""
