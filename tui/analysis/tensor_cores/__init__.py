"""Who uses tensor cores, who could, and how much of the time they take."""
