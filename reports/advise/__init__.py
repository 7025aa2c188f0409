"""`advise TABLE`: what to change in a table that exists, with the numbers that say so."""
