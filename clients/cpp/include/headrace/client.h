// A client of Headrace's gRPC API, which streams the answers of language models.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "headrace/error.h"
#include "headrace/stream.h"
#include "headrace/v1/inference_service.pb.h"
#include "headrace/v1/model.pb.h"

namespace headrace {

// How a client connects.
struct ClientOptions {
  // The key that is sent with every call, of visible ASCII characters; none if empty. Without TLS
  // it is sent in the clear.
  std::string api_key;
  // Such as grpc::SslCredentials({}); without encryption if null.
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  // Further settings of gRPC; they have the last word over those of the client.
  grpc::ChannelArguments arguments;
};

// Has the last word on a call before it is made: its deadline, metadata, compression.
using PrepareCall = std::function<void(grpc::ClientContext&)>;

// A connection to a server. Threads may share it, and copies are the same connection. Its streams
// may outlive it.
class Client {
 public:
  // Connects in the background: a server that is not there is an error of the first call. Throws
  // std::invalid_argument where the key is none that can be sent.
  explicit Client(const std::string& target = "localhost:1920", ClientOptions options = {});

  // Returns the answer to a request, to be read as it is made. The call begins with the first
  // reading, so that it can be cancelled from its start.
  Stream stream(v1::GenerateRequest request, const PrepareCall& prepare = {}) const;

  // Lists the models that the server serves; each page is a call. Throws Error.
  std::vector<v1::Model> models(const PrepareCall& prepare = {}) const;

  // The connection, for the stubs of calls that have no function here: they are in
  // headrace/v1/*_service.grpc.pb.h.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  std::unique_ptr<grpc::ClientContext> new_context(const PrepareCall& prepare) const;

  std::string api_key_;
  std::shared_ptr<grpc::Channel> channel_;
};

// The request for a chat with one message of the user's. What else it should hold is for the
// caller to set.
v1::GenerateRequest user_prompt(const std::string& text);

// The text of a response, of the first candidate.
std::string text_of(const v1::GenerateResponse& response);

}  // namespace headrace
