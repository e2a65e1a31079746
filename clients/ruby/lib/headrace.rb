# frozen_string_literal: true

require "headrace/version"
require "headrace/error"
require "headrace/generation_stream"
require "headrace/client"

# A client of Headrace, a streaming inference service. See Headrace::Client.
module Headrace
end
