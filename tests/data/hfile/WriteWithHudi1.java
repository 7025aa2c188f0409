import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import org.apache.hudi.io.compress.CompressionCodec;
import org.apache.hudi.io.hfile.HFileContext;
import org.apache.hudi.io.hfile.HFileWriterImpl;

/** path entries blockSize codec -> an HFile by the native writer of Hudi 1.1.1. */
public class WriteWithHudi1 {
  public static void main(String[] args) throws Exception {
    HFileContext context = HFileContext.builder()
        .blockSize(Integer.parseInt(args[2]))
        .compressionCodec(CompressionCodec.valueOf(args[3]))
        .build();
    try (OutputStream out = new FileOutputStream(args[0]);
         HFileWriterImpl writer = new HFileWriterImpl(context, out)) {
      for (int i = 0; i < Integer.parseInt(args[1]); i++) {
        String row = String.format("key-%05d-abcdefgh", i * 7);
        writer.append(row, ("value " + i).getBytes(StandardCharsets.UTF_8));
      }
      writer.appendFileInfo("schema", "\"bytes\"".getBytes());
    }
  }
}
