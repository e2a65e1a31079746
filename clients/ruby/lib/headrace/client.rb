# frozen_string_literal: true

require "json"
require "grpc"
require "headrace/error"
require "headrace/generation_stream"
require "headrace/version"
require "headrace/v1/inference_service_services_pb"
require "headrace/v1/model_service_services_pb"

module Headrace
  # A connection to a server; threads may share it.
  #
  #   Headrace::Client.open("localhost:1920") do |client|
  #     client.generate(text: "Once upon a time", stopping: { max_output_tokens: 60 }) do |response|
  #       response.deltas.each { |delta| print delta.text }
  #     end
  #   end
  #
  # Requests are the fields of the contract as keywords, or a message of Headrace::V1. Every call
  # raises Headrace::Error. Calls that the server refused without effect are made again, after the
  # time that it asks for: until an answer begins, never after.
  class Client
    # How a connection is encrypted, by PEM files: the certificates that are trusted, by default
    # those of gRPC; the certificate and key that the client shows, by default none; and the name
    # in the server's certificate, by default that of the target.
    Tls = Struct.new(:ca_certs, :certfile, :keyfile, :server_name, keyword_init: true)

    # @return [GRPC::Core::Channel] the connection, for stubs of your own, which send no key
    attr_reader :channel

    # Makes a client. With a block, yields it, closes it and returns what the block returns.
    #
    # @see #initialize
    def self.open(...)
      client = new(...)
      return client unless block_given?

      begin
        yield client
      ensure
        client.close
      end
    end

    # Makes a client. It connects with its first call.
    #
    # @param target [String] host:port, or another name of gRPC
    # @param api_key [String, nil] the key to send; without TLS it crosses the network in the clear
    # @param tls [Boolean, Tls, nil] whether and how to encrypt
    # @param timeout [Numeric, nil] the most seconds of each call, an answer to its end
    # @param max_attempts [Integer] how often a call is made at most, from 1 to 5
    # @raise [ArgumentError, SystemCallError] the arguments or the files cannot be used
    def initialize(target = "localhost:1920", api_key: nil, tls: nil, timeout: nil, max_attempts: 3)
      raise ArgumentError, "target is empty" if target.empty? # gRPC would wait for it without end
      raise ArgumentError, "max_attempts must be from 1 to 5" unless (1..5).cover?(max_attempts)
      # The newline of a file is often left in. The key is not told: it is a secret.
      raise ArgumentError, "the API key is not of visible ASCII characters" unless (api_key || "-").match?(/\A[!-~]+\z/)

      @target = target
      @metadata = api_key ? { "authorization" => "Bearer #{api_key}" } : {}
      @timeout = timeout
      args = channel_args(max_attempts)
      args["grpc.ssl_target_name_override"] = tls.server_name if tls.is_a?(Tls) && tls.server_name
      @channel = GRPC::ClientStub.setup_channel(nil, target, credentials(tls), args)
      @inference = V1::InferenceService::Stub.new(target, nil, channel_override: @channel)
      @models = V1::ModelService::Stub.new(target, nil, channel_override: @channel)
    end

    # Closes the connection, and with it what is running.
    def close
      @channel.close
    end

    # Shows where it connects to, and no key.
    def inspect
      "#<#{self.class} #{@target}>"
    end

    # Continues a prompt or answers a chat. With a block, yields each response as it comes, and
    # leaving the block cancels the call; without one, returns a GenerationStream.
    #
    # @param request [V1::GenerateRequest, nil] in place of fields
    # @yieldparam response [V1::GenerateResponse]
    # @return [GenerationStream, nil]
    # @raise [Error] when it is read
    def generate(request = nil, **fields, &block)
      request = message(V1::GenerateRequest, request, fields)
      stream = GenerationStream.new(@inference.generate(request, return_op: true, **options))
      return stream unless block

      stream.each(&block)
      nil
    end

    # Turns a prompt into token ids.
    #
    # @return [V1::TokenizeResponse]
    def tokenize(request = nil, **fields)
      request = message(V1::TokenizeRequest, request, fields)
      call { @inference.tokenize(request, **options) }
    end

    # Turns token ids into text.
    #
    # @param token_ids [Array<Integer>]
    # @return [String]
    def detokenize(token_ids, **fields)
      request = V1::DetokenizeRequest.new(token_ids: token_ids, **fields)
      call { @inference.detokenize(request, **options) }.text
    end

    # Gets a model by its name or an alias, by default the served one.
    #
    # @return [V1::Model]
    def model(name = "")
      call { @models.get_model(V1::GetModelRequest.new(name: name), **options) }.model
    end

    # Lists the served models.
    #
    # @return [Array<V1::Model>]
    def models
      models = []
      page = V1::ListModelsRequest.new
      loop do
        response = call { @models.list_models(page, **options) }
        models.concat(response.models.to_a)
        return models if response.next_page_token.empty?

        page = V1::ListModelsRequest.new(page_token: response.next_page_token)
      end
    end

    private

    def message(kind, request, fields)
      raise ArgumentError, "give a message or fields, not both" if request && !fields.empty?

      request || kind.new(**fields)
    end

    def options
      { metadata: @metadata, deadline: @timeout && (Time.now + @timeout) }
    end

    def call
      yield
    rescue GRPC::BadStatus => e
      raise Error.from(e)
    end

    def credentials(tls)
      return :this_channel_is_insecure unless tls
      return GRPC::Core::ChannelCredentials.new if tls == true
      raise ArgumentError, "certfile and keyfile belong together" if tls.certfile.nil? != tls.keyfile.nil?

      roots, key, certificate = [tls.ca_certs, tls.keyfile, tls.certfile].map { |file| file && File.read(file) }
      GRPC::Core::ChannelCredentials.new(roots, key, certificate)
    end

    def channel_args(max_attempts)
      {
        "grpc.primary_user_agent" => "headrace-ruby/#{VERSION}",
        # A server that vanished is noticed after 40 s. It allows a ping every 10 s.
        "grpc.keepalive_time_ms" => 30_000,
        "grpc.keepalive_timeout_ms" => 10_000,
        # A long prefill is silent: keep pinging through it.
        "grpc.http2.max_pings_without_data" => 0,
        "grpc.enable_retries" => max_attempts > 1 ? 1 : 0,
        "grpc.service_config" => JSON.generate(service_config(max_attempts))
      }
    end

    # Retries what had no effect. gRPC retries only until the response headers, which the server
    # sends on admission, and waits as long as the server's pushback says.
    def service_config(max_attempts)
      return {} if max_attempts == 1

      retry_policy = {
        maxAttempts: max_attempts, initialBackoff: "0.2s", maxBackoff: "5s", backoffMultiplier: 3,
        retryableStatusCodes: %w[UNAVAILABLE RESOURCE_EXHAUSTED]
      }
      services = %w[headrace.v1.InferenceService headrace.v1.ModelService]
      {
        methodConfig: [{ name: services.map { |name| { service: name } }, retryPolicy: retry_policy }],
        # After 5 failures in a row there are no retries until calls succeed again, so that
        # clients do not hold an overloaded server down.
        retryThrottling: { maxTokens: 10, tokenRatio: 0.1 }
      }
    end
  end
end
