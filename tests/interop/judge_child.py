"""A process that holds one release of Apache Hudi and answers what its tests ask over a pipe.

    python judge_child.py hudi-spark3.5-bundle_2.12-0.15.0.jar SCRATCH FD

Nothing of `table` is used here: what Hudi says must not depend on it. The JVM is asked through py4j
alone, lists and maps as one JSON text each through Spark's Jackson, so no Java is compiled.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from keymark.harness.engines.pipe_server import serve

# Only the driver's own class path works: from a child class loader the Avro classes of delete
# blocks and rollback plans cannot be cast.
SETTINGS = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": (
        "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    ),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(jar: str, scratch: str) -> SparkSession:
    """Spark with that jar."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    classes = f"{jar}{os.pathsep}{scratch}"
    places = {
        "spark.driver.extraClassPath": classes,
        "spark.executor.extraClassPath": classes,
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
    }
    builder = SparkSession.builder.master("local[2]").appName("interop")
    for key, value in {**SETTINGS, **places}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(os.environ.get("INTEROP_LOG", "OFF"))
    return spark


class Hudi:
    """What the suite asks Hudi for."""

    def __init__(self, jar: str, scratch: str) -> None:
        self.spark = session(jar, scratch)
        self.java: Any = self.spark.sparkContext._jvm
        self.hudi = self.java.org.apache.hudi
        self.json = self.java.com.fasterxml.jackson.databind.ObjectMapper()
        # From 1.1 on metadata tables are opened by a factory, and keys are asked for in lists.
        self.lists = re.search(r"-(0\.\d+|1\.0)\.\d+\.jar$", jar) is None

    def read(
        self, table: str, out: str, options: dict[str, str], where: dict[str, Any]
    ) -> int | None:
        """Write the rows of a snapshot to a Parquet file; how many files were opened for them.

        Of columns in `where` only that value is read. No row leaves no file.
        """
        frame = self.spark.read.format("hudi").options(**options).load(table)
        for column, value in where.items():
            same = col(column).isNull() if value is None else col(column) == lit(value)
            frame = frame.where(same)
        batches = frame._collect_as_arrow()
        if batches:
            pq.write_table(pa.Table.from_batches(batches), out)
        return _files_opened(frame)

    def write(self, table: str, rows: str, operation: str, options: dict[str, str]) -> None:
        """Write the rows of a Parquet file to a table."""
        writer = self.spark.read.parquet(rows).write.format("hudi").options(**options)
        writer = writer.option("hoodie.datasource.write.operation", operation)
        writer.mode("append").save(table)

    def configure(self, name: str) -> None:
        """Add a file of the scratch folder to what every Hadoop configuration is made from."""
        self.java.org.apache.hadoop.conf.Configuration.addDefaultResource(name)

    def buckets(self, keys: list[str], fields: str, count: int) -> list[int]:
        """The bucket of each key in the simple bucket index."""
        identifier = self.hudi.index.bucket.BucketIdentifier
        return [identifier.getBucketId(key, fields, count) for key in keys]

    def close(self) -> None:
        """Stop Spark."""
        self.spark.stop()

    def record_index(self, table: str, keys: list[str]) -> dict[str, list[str]]:
        """Key -> partition path, file id, instant by readRecordIndex; absent keys are left out."""
        metadata = self._metadata(table)
        kind = self.java.java.lang.Class.forName("java.util.ArrayList")
        asked = self.json.readValue(json.dumps(keys), kind)
        if self.lists:
            data = self.hudi.common.data.HoodieListData.eager(asked)
            pairs = metadata.readRecordIndexLocationsWithKeys(data).collectAsList()
            found = {key: place for pair in self._values(pairs) for key, place in pair.items()}
        else:
            found = self._values(metadata.readRecordIndex(asked))
        metadata.close()
        names = ("partitionPath", "fileId", "instantTime")
        return {key: [place[name] for name in names] for key, place in found.items()}

    def record_index_keys(self, table: str) -> list[str]:
        """Every live key of the record index, by a scan of all keys that begin with nothing."""
        metadata = self._metadata(table)
        prefixes = self.java.java.util.ArrayList()
        if self.lists:
            prefixes.add(self.hudi.metadata.RecordIndexRawKey(""))
            prefixes = self.hudi.common.data.HoodieListData.eager(prefixes)
        else:
            prefixes.add("")
        records = metadata.getRecordsByKeyPrefixes(prefixes, "record_index", True)
        keys = [r.getRecordKey() for r in records.collectAsList() if not r.getData().isDeleted()]
        metadata.close()
        return keys

    def listing(self, table: str) -> dict[str, dict[str, int]]:
        """Partition path -> file name -> size, as the metadata table lists them."""
        metadata = self._metadata(table)
        if not metadata.enabled():
            raise ValueError("Hudi does not use the metadata table of this table")
        found = {}
        for partition in metadata.getAllPartitionPaths():
            path = f"{table}/{partition}" if partition else table
            infos = metadata.getAllFilesInPartition(self.hudi.storage.StoragePath(path))
            found[partition] = {info.getPath().getName(): info.getLength() for info in infos}
        metadata.close()
        return found

    def _metadata(self, table: str) -> Any:
        """HoodieTableMetadata of a table."""
        context = self.spark.sparkContext._jsc
        engine = self.hudi.client.common.HoodieSparkEngineContext(context)
        conf = self.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(context.hadoopConfiguration())
        root = self.hudi.storage.StoragePath(table)
        storage = self.hudi.storage.hadoop.HoodieHadoopStorage(root, conf)
        config = self.hudi.common.config.HoodieMetadataConfig.newBuilder().enable(True).build()
        opened: Any = self.hudi.metadata.HoodieTableMetadata
        if self.lists:
            opened = self.hudi.metadata.NativeTableMetadataFactory.getInstance()
        return opened.create(engine, storage, config, table, True)

    def _values(self, answer: Any) -> Any:
        """A Java object as Python values, in one call over the bridge."""
        return json.loads(self.json.writeValueAsString(answer))


def _files_opened(frame: DataFrame) -> int | None:
    """The files that the scan of a frame read, which must have been collected."""
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves().iterator()
    while leaves.hasNext():
        metrics = leaves.next().metrics()
        if metrics.contains("numFiles"):
            return int(metrics.apply("numFiles").value())
    return None


def explain(error: Exception) -> str:
    """The messages of an exception and its causes, outermost first."""
    cause: Any = getattr(error, "java_exception", None)
    if cause is None:
        return f"{type(error).__name__}: {error}"
    told = []
    while cause is not None:
        first = str(cause.getMessage() or "").strip().partition("\n")[0]
        told.append(f"{cause.getClass().getSimpleName()}: {first}")
        cause = cause.getCause()
    return " <- ".join(told)


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    serve(Hudi(sys.argv[1], sys.argv[2]), explain=explain)
