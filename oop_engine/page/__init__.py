"""A page that shows how far a run is, served from the process of the run."""
