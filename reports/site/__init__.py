"""Published runs as a static site: an overview, a page a question, a page a run."""
