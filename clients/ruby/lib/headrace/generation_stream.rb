# frozen_string_literal: true

require "headrace/error"

module Headrace
  # The answer to one request as it is made: an Enumerable of GenerateResponse that can be read
  # once. The call is made when reading begins. Leaving `each` early, by `break` or an exception,
  # cancels it, and the server stops the work at once.
  class GenerationStream
    include Enumerable

    # Takes the operation of a stub, as `return_op: true` gives it.
    #
    # @api private
    def initialize(operation)
      @operation = operation
      @is_read = false
    end

    # Yields each response as it comes; without a block returns an Enumerator.
    #
    # @yieldparam response [V1::GenerateResponse]
    # @return [self, Enumerator]
    # @raise [Error] the call failed
    def each(&block)
      return enum_for(:each) unless block
      raise "an answer can be read once" if @is_read

      @is_read = true
      begin
        @operation.execute.each(&block)
      rescue GRPC::BadStatus => e
        raise Error.from(e)
      ensure
        cancel
      end
      self
    end

    # Cancels the call, if it is not complete. Any thread may do so while another reads, which
    # then gets a Headrace::Error with the code :CANCELLED.
    def cancel
      @operation.cancel
      nil
    end

    # Yields the pieces of the text of the first candidate; without a block returns an Enumerator.
    #
    # @yieldparam text [String]
    # @return [self, Enumerator]
    def each_text
      return enum_for(:each_text) unless block_given?

      each do |response|
        response.deltas.each { |delta| yield delta.text if delta.candidate_index.zero? && !delta.text.empty? }
      end
    end

    # Reads the whole answer and returns the text of its first candidate.
    #
    # @return [String]
    def text
      each_text.to_a.join
    end

    # Shows no call, which holds the key.
    def inspect
      "#<#{self.class}>"
    end
  end
end
