# frozen_string_literal: true

require "test_helper"
require "headrace/command_line"
require "stringio"

class CommandLineTest < Minitest::Test
  CommandLine = Headrace::CommandLine
  Tls = Headrace::Client::Tls

  def test_reads_every_option
    wish = parse(*%w[--target example:443 --ca-certs ca.pem --certfile c.pem --keyfile k.pem],
                 *%w[--api-key k1 --max-tokens 7 --timeout 1.5 Hi])
    assert_equal "example:443", wish.target
    assert_equal({ api_key: "k1", tls: Tls.new(ca_certs: "ca.pem", certfile: "c.pem", keyfile: "k.pem"), timeout: 1.5 },
                 wish.client)
    assert_equal({ chat: { messages: [{ role: :ROLE_USER, content: "Hi" }] }, stopping: { max_output_tokens: 7 } },
                 wish.request)
  end

  def test_asks_for_nothing_that_is_not_given
    wish = parse("Hi")
    assert_equal({ api_key: nil, tls: nil, timeout: nil }, wish.client)
    assert_equal [:chat], wish.request.keys
    assert_equal true, parse("--tls", "Hi").client[:tls]
  end

  def test_takes_the_key_of_the_environment_unless_one_is_given
    environment = { "HEADRACE_API_KEY" => "k1" }
    assert_equal "k1", CommandLine.parse(["Hi"], environment).client[:api_key]
    assert_equal "k2", CommandLine.parse(["Hi", "--api-key", "k2"], environment).client[:api_key]
    assert_nil CommandLine.parse(["Hi"], { "HEADRACE_API_KEY" => "" }).client[:api_key]
  end

  def test_refuses_what_it_does_not_understand
    wrong = [[], %w[one two], %w[--verbose Hi], %w[Hi --max-tokens 1.5], %w[Hi --timeout 0], %w[Hi --keyfile k.pem],
             %w[Hi --max-tokens 2147483648]]
    wrong.each do |words|
      assert_raises(CommandLine::UsageError, words.inspect) { parse(*words) }
    end
  end

  def test_ends_with_2_after_wrong_arguments
    err = StringIO.new
    assert_equal 2, CommandLine.run(%w[--ca-certs /no/such/file Hi], {}, err: err)
    assert_match(/error: .*no.such.file/, err.string)
  end

  def test_ends_with_2_for_a_key_that_no_header_can_hold
    err = StringIO.new
    assert_equal 2, CommandLine.run(["Hi"], { "HEADRACE_API_KEY" => "se cret" }, err: err)
    refute_includes err.string, "se cret"
  end

  def test_shows_neither_key_nor_prompt
    assert_equal "#<Headrace::CommandLine::Wish localhost:1920>", parse("--api-key", "k1", "Hi").inspect
  end

  def test_describes_an_error_in_one_line
    error = Headrace::Error.new("Later.", code: :RESOURCE_EXHAUSTED, reason: "OVERLOADED", retry_delay: 1.25)
    assert_equal "error: OVERLOADED: Later.; retry in 1.2 s", CommandLine.describe(error)
    assert_equal "error: UNAVAILABLE: No.", CommandLine.describe(Headrace::Error.new("No.", code: :UNAVAILABLE))
  end

  private

  def parse(*words)
    CommandLine.parse(words, {})
  end
end
