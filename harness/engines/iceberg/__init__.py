"""The engine `iceberg@VERSION`: what is true of Apache Iceberg only."""
