# frozen_string_literal: true

require "test_helper"
require "timeout"

# Against a real server on the loopback, whose answers to the prompt "on" never end, and which
# refuses the prompt "later".
class ClientTest < Minitest::Test
  # Answers "one two", and tells the keys that it sees and the answers that were cut.
  class Answers < Headrace::V1::InferenceService::Service
    attr_reader :keys, :cut

    def initialize
      super
      @keys = Queue.new
      @cut = Queue.new
    end

    def generate(request, call)
      keys << call.metadata["authorization"]
      raise GRPC::Unavailable, "noch nicht: später" if request.text == "later"
      Enumerator.new do |responses|
        is_complete = false
        responses << response("one ")
        responses << response("and ") while request.text == "on"
        responses << response("two")
        is_complete = true
      ensure
        cut << true unless is_complete
      end
    end

    private

    def response(text)
      Headrace::V1::GenerateResponse.new(deltas: [{ text: text }])
    end
  end

  def setup
    @answers = Answers.new
    @server = GRPC::RpcServer.new(poll_period: 0.05)
    port = @server.add_http2_port("127.0.0.1:0", :this_port_is_insecure)
    @server.handle(@answers)
    @serving = Thread.new { @server.run }
    @server.wait_till_running
    @target = "127.0.0.1:#{port}"
  end

  def teardown
    @server.stop
    @serving.join
  end

  def test_reads_a_whole_answer
    Headrace::Client.open(@target) do |client|
      assert_equal "one two", client.generate(text: "end").text
      assert_nil soon(@answers.keys)
    end
  end

  def test_takes_a_message_for_a_request
    Headrace::Client.open(@target) do |client|
      pieces = []
      client.generate(Headrace::V1::GenerateRequest.new(text: "end")) { |response| pieces << response.deltas[0].text }
      assert_equal ["one ", "two"], pieces
    end
  end

  def test_sends_the_key
    Headrace::Client.open(@target, api_key: "k1") { |client| client.generate(text: "end").text }
    assert_equal "Bearer k1", soon(@answers.keys)
  end

  def test_cancels_the_call_when_the_block_is_left
    Headrace::Client.open(@target) do |client|
      client.generate(text: "on") { break }
      assert_cut
    end
  end

  def test_cancels_the_call_when_the_block_raises
    Headrace::Client.open(@target) do |client|
      assert_raises(KeyError) { client.generate(text: "on").each_text { raise KeyError } }
      assert_cut
    end
  end

  def test_is_cancelled_from_another_thread
    Headrace::Client.open(@target) do |client|
      stream = client.generate(text: "on")
      read = Queue.new
      reader = Thread.new { assert_raises(Headrace::Error) { stream.each { read << true } } }
      soon(read)
      stream.cancel
      assert_equal :CANCELLED, reader.value.code
      assert_cut
    end
  end

  def test_ends_a_call_at_its_timeout
    Headrace::Client.open(@target, timeout: 0.3) do |client|
      error = assert_raises(Headrace::Error) { client.generate(text: "on") { nil } }
      assert_equal :DEADLINE_EXCEEDED, error.code
    end
  end

  def test_tells_what_the_server_says_in_utf8
    Headrace::Client.open(@target) do |client|
      error = assert_raises(Headrace::Error) { client.generate(text: "later").text }
      assert_equal [:UNAVAILABLE, "noch nicht: später"], [error.code, error.message]
    end
  end

  def test_reads_an_answer_once
    Headrace::Client.open(@target) do |client|
      stream = client.generate(text: "end")
      stream.text
      assert_equal "an answer can be read once", assert_raises(RuntimeError) { stream.text }.message
    end
  end

  def test_does_not_make_a_call_that_was_cancelled_before
    Headrace::Client.open(@target) do |client|
      stream = client.generate(text: "end")
      stream.cancel
      assert_equal :CANCELLED, assert_raises(Headrace::Error) { stream.text }.code
    end
  end

  def test_opens_a_client_without_a_block
    client = Headrace::Client.open(@target)
    assert_equal "one two", client.generate(text: "end").text
  ensure
    client&.close
  end

  def test_shows_no_key
    Headrace::Client.open(@target, api_key: "k1") do |client|
      assert_equal "#<Headrace::Client #{@target}>", client.inspect
      assert_equal "#<Headrace::GenerationStream>", client.generate(text: "end").inspect
    end
  end

  def test_refuses_a_key_that_no_header_can_hold_without_telling_it
    ["", "secret\n", "se cret", "sécret"].each do |key|
      error = assert_raises(ArgumentError, key) { Headrace::Client.new(@target, api_key: key) }
      assert_equal "the API key is not of visible ASCII characters", error.message
    end
  end

  def test_refuses_an_empty_target
    assert_equal "target is empty", assert_raises(ArgumentError) { Headrace::Client.new("") }.message
  end

  def test_refuses_half_a_pair
    tls = Headrace::Client::Tls.new(certfile: "c.pem")
    assert_raises(ArgumentError) { Headrace::Client.new(@target, tls: tls) }
  end

  private

  # The server learns that nobody listens when it sends the next piece.
  def assert_cut
    assert soon(@answers.cut)
  end

  def soon(queue)
    Timeout.timeout(20) { queue.pop }
  end
end
