"""The engine `delta@VERSION`: what is true of Delta Lake only."""
