/* Rows as lake-loader's change data generator makes them (its README and ChangeDataGenerator): an
 * RDD of rows of key, partition, round, time, five random texts and a random long. A key is a
 * random UUID and the round; a text has from 1 to 2 times (record size / number of columns)
 * characters of an alphabet of letters, digits and signs, drawn one by one.
 */
package keymark.benchmarks

import java.util.UUID

import scala.util.Random

import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.sql.types._

object LakeLoaderRecipe extends Serializable {
  private val Texts = 5
  private val Columns = 10
  private val Alphabet = (('a' to 'z') ++ ('A' to 'Z') ++ ('0' to '9')).toVector ++
    """!@#$%^&*()-_=+[]{};:,.<>/?""".toVector

  private val schema = StructType(
    Seq(
      StructField("key", StringType, nullable = false),
      StructField("partition", StringType, nullable = false),
      StructField("round", IntegerType, nullable = false),
      StructField("ts", LongType, nullable = false)) ++
      (1 to Texts).map(number => StructField(s"text$number", StringType)) :+
      StructField("number", LongType))

  private def text(length: Int): String = {
    val random = new Random()
    (0 until length).map(_ => Alphabet(random.nextInt(Alphabet.size))).mkString
  }

  private def row(draw: Random, days: Vector[String], step: Int): Row = {
    val texts = Seq.fill(Texts)(text(step + draw.nextInt(step)))
    val day = days(draw.nextInt(days.size))
    val fixed = Seq(f"${UUID.randomUUID()}-${0}%03d", day, 0, System.currentTimeMillis())
    Row.fromSeq((fixed ++ texts) :+ draw.nextLong())
  }

  def rows(spark: SparkSession, count: Long, partitions: Int, recordBytes: Int): DataFrame = {
    val days = (1 to 20).map(day => f"2024-01-$day%02d").toVector
    val step = recordBytes / Columns
    val made = spark.sparkContext.range(0, count, 1, partitions).mapPartitions { numbers =>
      val draw = new Random()
      numbers.map(_ => row(draw, days, step))
    }
    spark.createDataFrame(made, schema)
  }
}
