package headrace;

import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.MetadataUtils;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** The options of a {@link HeadraceClient}. */
public final class HeadraceClientBuilder {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final String target;
  private boolean tls;
  private Path caCertificates;
  private Path certificate;
  private Path privateKey;
  private String serverName;
  private String apiKey;
  private Duration timeout;
  private int maxAttempts = 3;

  HeadraceClientBuilder(String target) {
    this.target = target;
  }

  /** Encrypts the connection; the server is known by the certificates of the Java runtime. */
  public HeadraceClientBuilder tls() {
    tls = true;
    return this;
  }

  /** Encrypts the connection; the server is known by the certificates of this PEM file. */
  public HeadraceClientBuilder caCertificates(Path file) {
    caCertificates = file;
    return tls();
  }

  /** Shows a certificate to the server. Both files are PEM, the key in PKCS#8 without password. */
  public HeadraceClientBuilder clientCertificate(Path certificateFile, Path privateKeyFile) {
    certificate = certificateFile;
    privateKey = privateKeyFile;
    return tls();
  }

  /** Expects this name in the server's certificate. Default: that of the target. */
  public HeadraceClientBuilder serverName(String name) {
    serverName = name;
    return tls();
  }

  /**
   * Sends this key with every call; null sends none. Without TLS it crosses the network in the
   * clear.
   *
   * @throws IllegalArgumentException no header can hold it; the newline of a file, say, is in it.
   */
  public HeadraceClientBuilder apiKey(String key) {
    if (key != null && !key.matches("[!-~]+")) { // not told: it is a secret
      throw new IllegalArgumentException("the API key is not of visible ASCII characters");
    }
    apiKey = key;
    return this;
  }

  /**
   * Limits the time of every call, an answer to its end; null does not. {@code io.grpc.Context}
   * can limit a single one.
   */
  public HeadraceClientBuilder timeout(Duration limit) {
    timeout = limit;
    return this;
  }

  /** Makes a call this many times at most, from 1 to 5. Default: 3. */
  public HeadraceClientBuilder maxAttempts(int attempts) {
    if (attempts < 1 || attempts > 5) {
      throw new IllegalArgumentException("maxAttempts must be from 1 to 5, not " + attempts);
    }
    maxAttempts = attempts;
    return this;
  }

  /**
   * Makes the client. It connects with its first call.
   *
   * @throws IllegalArgumentException a file of certificates or of the key cannot be used.
   */
  public HeadraceClient build() {
    ManagedChannelBuilder<?> builder =
        Grpc.newChannelBuilder(target, credentials())
            .userAgent("headrace-java/0.1.0")
            // A server that vanished is noticed after 40 s. It allows a ping every 10 s.
            .keepAliveTime(30, TimeUnit.SECONDS)
            .keepAliveTimeout(10, TimeUnit.SECONDS);
    if (maxAttempts == 1) {
      builder.disableRetry();
    } else {
      builder.enableRetry().defaultServiceConfig(serviceConfig(maxAttempts));
    }
    if (serverName != null) {
      builder.overrideAuthority(serverName);
    }
    ManagedChannel connection = builder.build();
    return new HeadraceClient(connection, withKey(connection), timeout);
  }

  private Channel withKey(Channel channel) {
    if (apiKey == null) {
      return channel;
    }
    Metadata metadata = new Metadata();
    metadata.put(AUTHORIZATION, "Bearer " + apiKey);
    return ClientInterceptors.intercept(
        channel, MetadataUtils.newAttachHeadersInterceptor(metadata));
  }

  private ChannelCredentials credentials() {
    if (!tls) {
      return InsecureChannelCredentials.create();
    }
    TlsChannelCredentials.Builder builder = TlsChannelCredentials.newBuilder();
    try {
      if (caCertificates != null) {
        builder.trustManager(caCertificates.toFile());
      }
      if (certificate != null) {
        requirePkcs8(privateKey);
        builder.keyManager(certificate.toFile(), privateKey.toFile());
      }
    } catch (IOException unreadable) {
      throw new IllegalArgumentException("cannot read " + unreadable.getMessage(), unreadable);
    }
    return builder.build();
  }

  /** Says what is wrong with a key of OpenSSL's older form, of which Java tells only "invalid". */
  private static void requirePkcs8(Path file) throws IOException {
    String text = Files.readString(file, StandardCharsets.ISO_8859_1);
    if (!text.contains("-----BEGIN PRIVATE KEY-----")) {
      throw new IllegalArgumentException(
          file
              + " is not a key in PKCS#8: make one with openssl pkcs8 -topk8 -nocrypt -in "
              + file);
    }
  }

  /**
   * Retries what had no effect. gRPC retries only until the response headers, which the server
   * sends on admission, and waits as long as the server's pushback says.
   */
  private static Map<String, ?> serviceConfig(int maxAttempts) {
    Map<String, ?> retryPolicy =
        Map.of(
            "maxAttempts", (double) maxAttempts,
            "initialBackoff", "0.2s",
            "maxBackoff", "5s",
            "backoffMultiplier", 3.0,
            "retryableStatusCodes", List.of("UNAVAILABLE", "RESOURCE_EXHAUSTED"));
    List<?> services =
        List.of(
            Map.of("service", "headrace.v1.InferenceService"),
            Map.of("service", "headrace.v1.ModelService"));
    return Map.of(
        "methodConfig", List.of(Map.of("name", services, "retryPolicy", retryPolicy)),
        // After 5 failures in a row there are no retries until calls succeed again, so that
        // clients do not hold an overloaded server down.
        "retryThrottling", Map.of("maxTokens", 10.0, "tokenRatio", 0.1));
  }
}
