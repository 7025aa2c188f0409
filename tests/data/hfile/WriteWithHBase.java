import java.net.URI;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hudi.io.storage.HoodieHBaseKVComparator;
import org.apache.hudi.org.apache.hadoop.hbase.KeyValue;
import org.apache.hudi.org.apache.hadoop.hbase.io.compress.Compression;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.CacheConfig;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.HFile;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.HFileContext;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.HFileContextBuilder;

/** path entries blockSize indexBlockSize indexEntriesMin codec -> an HFile by HBase 2.4 inside Hudi 0.15.0. */
public class WriteWithHBase {
  public static void main(String[] args) throws Exception {
    Configuration conf = new Configuration();
    conf.setInt("hfile.index.block.max.size", Integer.parseInt(args[3]));
    conf.setInt("hfile.index.block.min.entries", Integer.parseInt(args[4]));
    FileSystem fs = new RawLocalFileSystem();
    fs.initialize(new URI("file:///"), conf);
    HFileContext context = new HFileContextBuilder()
        .withBlockSize(Integer.parseInt(args[2]))
        .withCompression(Compression.Algorithm.valueOf(args[5]))
        .withCellComparator(new HoodieHBaseKVComparator())
        .build();
    try (HFile.Writer writer = HFile.getWriterFactory(conf, new CacheConfig(conf))
        .withPath(fs, new Path(args[0])).withFileContext(context).create()) {
      for (int i = 0; i < Integer.parseInt(args[1]); i++) {
        byte[] row = String.format("key-%05d-abcdefgh", i * 7).getBytes(StandardCharsets.UTF_8);
        byte[] value = ("value " + i).getBytes(StandardCharsets.UTF_8);
        writer.append(new KeyValue(row, null, null, value));
      }
      writer.appendFileInfo("schema".getBytes(), "\"bytes\"".getBytes());
    }
  }
}
