# frozen_string_literal: true

require "optparse"
require "headrace"

module Headrace
  # The command line: sends a prompt as a chat and prints the answer as it comes.
  class CommandLine
    # What the arguments ask for: the prompt, its fields of GenerateRequest, the address, and
    # the options of Client.
    Wish = Struct.new(:request, :target, :client, keyword_init: true) do
      # Shows neither the key nor the prompt.
      def inspect
        "#<#{self.class} #{target}>"
      end
    end

    # The arguments cannot be understood.
    class UsageError < StandardError; end

    # Reads the arguments. Raises UsageError.
    def self.parse(arguments, environment)
      given = { target: "localhost:1920" }
      words = parser.parse(arguments, into: given)
      raise UsageError, "give one PROMPT; quote it if it has spaces" if words.size != 1
      raise UsageError, "give --certfile and --keyfile together" if given.key?(:certfile) != given.key?(:keyfile)
      raise UsageError, "--timeout must be above 0" unless given.fetch(:timeout, 1).positive?
      raise UsageError, "--max-tokens is too large" if given.fetch(:"max-tokens", 0) >= 2**31

      new_wish(words.first, given, environment.fetch("HEADRACE_API_KEY", ""))
    rescue OptionParser::ParseError => e
      raise UsageError, e.message
    end

    # Does what the arguments say and returns the exit status: 0, or 1 after an error, 2 for wrong
    # arguments, 130 after Ctrl-C.
    def self.run(arguments, environment, out: $stdout, err: $stderr)
      wish = parse(arguments, environment)
      client = connect(wish)
      out.sync = true
      client.generate(**wish.request).each_text { |text| out.print(text) }
      out.puts
      0
    rescue UsageError => e
      err.puts(parser.banner, "error: #{e.message}")
      2
    rescue Errno::EPIPE # nobody reads any more, as behind head
      1
    rescue Error => e
      err.puts(describe(e))
      1
    rescue Interrupt # the call was cancelled on the way here
      130
    ensure
      client&.close
    end

    # Returns the line that tells an error, such as "error: OVERLOADED: …; retry in 1.0 s".
    def self.describe(error)
      line = "error: #{error.reason || error.code}: #{error.message}"
      error.retry_delay ? format("%s; retry in %.1f s", line, error.retry_delay) : line
    end

    def self.connect(wish)
      Client.new(wish.target, **wish.client)
    rescue ArgumentError, SystemCallError => e # a key or a file that cannot be used
      raise UsageError, e.message
    end

    def self.parser
      OptionParser.new("usage: headrace [options] PROMPT") do |options|
        options.on("--target HOST:PORT", "of the gRPC server (localhost:1920)")
        options.on("--tls", "encrypt, trusting the certificates of gRPC")
        options.on("--ca-certs FILE", "encrypt, trusting these certificates")
        options.on("--certfile FILE", "the certificate to show")
        options.on("--keyfile FILE", "and its key")
        options.on("--api-key KEY", "(or the variable HEADRACE_API_KEY)")
        options.on("--max-tokens N", Integer, "the longest answer")
        options.on("--timeout SECONDS", Float, "the longest time")
      end
    end

    def self.new_wish(prompt, given, default_key)
      request = { chat: { messages: [{ role: :ROLE_USER, content: prompt }] } }
      request[:stopping] = { max_output_tokens: given[:"max-tokens"] } if given.key?(:"max-tokens")
      files = { ca_certs: given[:"ca-certs"], certfile: given[:certfile], keyfile: given[:keyfile] }
      Wish.new(
        request: request,
        target: given[:target],
        client: {
          api_key: given.fetch(:"api-key", default_key.empty? ? nil : default_key),
          tls: files.values.any? ? Client::Tls.new(**files) : given[:tls],
          timeout: given[:timeout]
        }
      )
    end

    private_class_method :connect, :parser, :new_wish
  end
end
