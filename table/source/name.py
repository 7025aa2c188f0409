"""The name of the source in Spark: `spark.read.format("keymark")`."""

FORMAT = "keymark"
