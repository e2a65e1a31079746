# frozen_string_literal: true

module Headrace
  VERSION = "0.1.0"
end
