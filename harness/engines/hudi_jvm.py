"""Hudi's classes on the JVM, for what its data source does not offer: lookups.

Keys go to the JVM, and answers come from it, as one JSON text each through the Jackson that Spark
brings: a call per key through py4j would take longer than the lookup.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from keymark.harness.engines import hudi_releases
from keymark.harness.errors import CellError
from keymark.indexes.installed import specs

_MODEL = "org.apache.hudi.common.model"

_MOVES = (spec.move_option for spec in specs().values() if spec.in_hudi)
_STAY = {option: "false" for option in _MOVES if option}
"""A lookup asks where a key is; it does not bring it to another partition."""

Place = tuple[str, str]
"""Partition path and file id."""


class HudiJvm:
    """The lookups of one Hudi version in one session."""

    def __init__(self, spark: SparkSession, version: str) -> None:
        self._release = hudi_releases.release(version)
        context: Any = spark.sparkContext
        self._java_context = context._jsc  # noqa: SLF001 - the only way to the JVM
        self._jvm = context._jvm  # noqa: SLF001
        self._hudi = self._jvm.org.apache.hudi
        self._engine = self._hudi.client.common.HoodieSparkEngineContext(self._java_context)
        jackson = self._jvm.com.fasterxml.jackson
        self._mapper = jackson.databind.ObjectMapper()
        access, visibility = jackson.annotation.PropertyAccessor, jackson.annotation.JsonAutoDetect
        self._mapper.setVisibility(access.ALL, visibility.Visibility.NONE)
        self._mapper.setVisibility(access.FIELD, visibility.Visibility.ANY)
        empty = jackson.databind.SerializationFeature.FAIL_ON_EMPTY_BEANS
        self._mapper.configure(empty, False)  # noqa: FBT003 - Java

    def set_property(self, name: str, value: str) -> None:
        """Set a system property of Java."""
        self._jvm.java.lang.System.setProperty(name, value)

    def add_settings(self, name: str) -> None:
        """Add a file on the class path to what every Hadoop configuration is made from."""
        self._jvm.org.apache.hadoop.conf.Configuration.addDefaultResource(name)

    def texts(self, keys: Sequence[str]) -> JavaObject:
        """A Java list of record keys."""
        return self._read(list(keys), "java.util.ArrayList<java.lang.String>")

    def records(self, keys: Sequence[str], partitions: Sequence[str], *, slices: int) -> JavaObject:
        """A `JavaRDD<HoodieRecord>` without payloads: record keys with their partition paths."""
        listed = self._read(
            [
                {"key": {"recordKey": key, "partitionPath": partition}, "data": {}}
                for key, partition in zip(keys, partitions, strict=True)
            ],
            f"java.util.ArrayList<{_MODEL}.HoodieAvroRecord<{_MODEL}.EmptyHoodieRecordPayload>>",
        )
        return self._java_context.parallelize(listed, slices)

    def record_index(self, path: str, texts: JavaObject, options: Mapping[str, str]) -> JavaObject:
        """Open the metadata table and look keys up in the record index (`readRecordIndex`)."""
        config = (
            self._hudi.common.config.HoodieMetadataConfig.newBuilder()
            .fromProperties(self._properties(options))
            .enable(True)  # noqa: FBT003 - Java
            .build()
        )
        where = self._hudi.storage.StoragePath(path)
        storage = self._hudi.storage.hadoop.HoodieHadoopStorage(where, self._storage_conf())
        if self._release.has_locations:
            factory = self._hudi.metadata.NativeTableMetadataFactory.getInstance()
            table = factory.create(self._engine, storage, config, path)
            asked = self._hudi.common.data.HoodieListData.eager(texts)
            found = table.readRecordIndexLocationsWithKeys(asked).collectAsList()
        else:
            create = self._hudi.metadata.HoodieTableMetadata.create
            table = create(self._engine, storage, config, path)
            found = table.readRecordIndex(texts)
        table.close()
        return found

    def initialise(self, path: str, options: Mapping[str, str]) -> None:
        """Open the metadata table for writing: what is missing in it is built from the data."""
        config = self._write_config(path, options, self.schema(path))
        none = self._hudi.common.util.Option.empty()
        asked = [self._storage_conf(), config, self._engine, none]
        if self._release.metadata_writer == "SparkMetadataWriterFactory":
            asked.append(self._meta_client(path).getTableConfig())
        getattr(self._hudi.metadata, self._release.metadata_writer).create(*asked).close()

    def schema(self, path: str) -> str:
        """The Avro schema of a table's rows, which a writer's configuration carries."""
        resolver = self._hudi.common.table.TableSchemaResolver(self._meta_client(path))
        asked = getattr(resolver, self._release.schema_call)
        return str(asked(False).toString())  # noqa: FBT003 - Java

    def tagged(
        self, path: str, records: JavaObject, options: Mapping[str, str], *, schema: str
    ) -> JavaObject:
        """Let the index of a table tag records (`HoodieReadClient.tagLocation`)."""
        config = self._write_config(path, {**options, **_STAY}, schema)
        client = self._hudi.client.HoodieReadClient(self._engine, config)
        return client.tagLocation(records).collect()

    def places(self, found: JavaObject) -> dict[str, Place]:
        """The answer of a lookup as record key -> place; keys that are not there are left out."""
        answer = json.loads(self._mapper.writeValueAsString(found))
        if isinstance(answer, dict):
            if self._release.lists_locations:
                answer = {key: _only_location(key, listed) for key, listed in answer.items()}
            return {key: (at["partitionPath"], at["fileId"]) for key, at in answer.items()}
        places = {}
        for each in answer:
            if "currentLocation" in each:
                key, at = each["key"]["recordKey"], each["currentLocation"]
                at = at and {**at, "partitionPath": each["key"]["partitionPath"]}
            else:
                [(key, at)] = each.items()  # Hudi's Pair is a Map.Entry
            if at is not None:
                places[key] = (at["partitionPath"], at["fileId"])
        return places

    def _write_config(self, path: str, options: Mapping[str, str], schema: str) -> JavaObject:
        return (
            self._hudi.config.HoodieWriteConfig.newBuilder()
            .withPath(path)
            .withSchema(schema)
            .withProps(self._properties(options))
            .build()
        )

    def _meta_client(self, path: str) -> JavaObject:
        builder = self._hudi.common.table.HoodieTableMetaClient.builder()
        return builder.setConf(self._storage_conf()).setBasePath(path).build()

    def _storage_conf(self) -> JavaObject:
        configuration = self._java_context.hadoopConfiguration()
        return self._hudi.hadoop.fs.HadoopFSUtils.getStorageConf(configuration)

    def _read(self, value: Sequence[object], kind: str) -> JavaObject:
        types = self._mapper.getTypeFactory()
        return self._mapper.readValue(json.dumps(value), types.constructFromCanonical(kind))

    def _properties(self, options: Mapping[str, str]) -> JavaObject:
        properties = self._jvm.java.util.Properties()
        for name, value in options.items():
            properties.setProperty(name, value)
        return properties


def _only_location(key: str, listed: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The location of a key in a list of its locations.

    Raises:
        CellError: the record index has several places for one key, or names none.
    """
    if len(listed) != 1:
        raise CellError(f"the record index has {len(listed)} locations of the key {key!r}")
    return listed[0]
