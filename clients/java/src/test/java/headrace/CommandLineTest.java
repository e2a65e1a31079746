package headrace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CommandLineTest {
  @Test
  void readsEveryOption() {
    CommandLine commandLine =
        parse(
            "--target", "example:443", "--tls", "--ca-certs", "ca.pem", "--certfile", "c.pem",
            "--keyfile", "k.pem", "--api-key", "k1", "--max-tokens", "7", "--timeout", "1.5", "Hi");
    assertEquals(
        new CommandLine(
            "example:443",
            true,
            Path.of("ca.pem"),
            Path.of("c.pem"),
            Path.of("k.pem"),
            "k1",
            7,
            Duration.ofMillis(1500),
            "Hi"),
        commandLine);
  }

  @Test
  void takesTheKeyOfTheEnvironmentUnlessOneIsGiven() {
    Map<String, String> environment = Map.of("HEADRACE_API_KEY", "k1");
    assertEquals("k1", CommandLine.parse(List.of("Hi"), environment).apiKey());
    assertEquals(
        "k2", CommandLine.parse(List.of("--api-key", "k2", "Hi"), environment).apiKey());
    assertNull(CommandLine.parse(List.of("Hi"), Map.of("HEADRACE_API_KEY", "")).apiKey());
  }

  @Test
  void showsNeitherKeyNorPrompt() {
    assertEquals(
        "CommandLine[target=localhost:1920]", parse("--api-key", "k1", "Hi").toString());
  }

  @Test
  void takesWhatFollowsTwoHyphensAsThePrompt() {
    assertEquals("--tls", parse("--", "--tls").prompt());
  }

  @ParameterizedTest
  @CsvSource({
    "'',give a PROMPT",
    "one two,give one PROMPT; quote it if it has spaces",
    "--verbose Hi,unknown option --verbose",
    "Hi --target,--target needs a value",
    "Hi --max-tokens 1.5,'--max-tokens must be a whole number, not 1.5'",
    "Hi --timeout 0,'--timeout must be a number of seconds above 0, not 0'",
    "Hi --timeout NaN,'--timeout must be a number of seconds above 0, not NaN'",
    "Hi --keyfile k.pem,give --certfile and --keyfile together",
  })
  void saysWhatIsWrong(String arguments, String message) {
    String[] words = arguments.isEmpty() ? new String[0] : arguments.split(" ");
    assertEquals(
        message, assertThrows(IllegalArgumentException.class, () -> parse(words)).getMessage());
  }

  private static CommandLine parse(String... arguments) {
    return CommandLine.parse(List.of(arguments), Map.of());
  }
}
