#include "headrace/client.h"

#include <grpcpp/create_channel.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "headrace/v1/model_service.grpc.pb.h"

namespace headrace {
namespace {

// gRPC ends the program over a header that holds anything else, such as the newline of a file.
bool can_be_sent(const std::string& key) {
  return std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c <= '~'; });
}

void set_unless_set(grpc::ChannelArguments& arguments, const std::string& key, int value) {
  const grpc_channel_args set = arguments.c_channel_args();
  for (std::size_t i = 0; i < set.num_args; ++i) {
    if (set.args[i].key == key) return;
  }
  arguments.SetInt(key, value);
}

}  // namespace

Client::Client(const std::string& target, ClientOptions options)
    : api_key_(std::move(options.api_key)) {
  if (!can_be_sent(api_key_)) {
    throw std::invalid_argument("the API key holds characters other than visible ASCII ones");
  }
  // A long prompt is silent: a server that vanished is noticed by its missing pong.
  set_unless_set(options.arguments, GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  set_unless_set(options.arguments, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  set_unless_set(options.arguments, GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  channel_ = grpc::CreateCustomChannel(
      target, options.credentials ? options.credentials : grpc::InsecureChannelCredentials(),
      options.arguments);
}

Stream Client::stream(v1::GenerateRequest request, const PrepareCall& prepare) const {
  return Stream(channel_, new_context(prepare), std::move(request));
}

std::vector<v1::Model> Client::models(const PrepareCall& prepare) const {
  const auto stub = v1::ModelService::NewStub(channel_);
  std::vector<v1::Model> models;
  v1::ListModelsRequest request;
  do {
    v1::ListModelsResponse page;
    const auto context = new_context(prepare);
    const grpc::Status status = stub->ListModels(context.get(), request, &page);
    if (!status.ok()) throw Error(status);
    models.insert(models.end(), page.models().begin(), page.models().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return models;
}

std::unique_ptr<grpc::ClientContext> Client::new_context(const PrepareCall& prepare) const {
  auto context = std::make_unique<grpc::ClientContext>();
  if (!api_key_.empty()) context->AddMetadata("authorization", "Bearer " + api_key_);
  if (prepare) prepare(*context);
  return context;
}

v1::GenerateRequest user_prompt(const std::string& text) {
  v1::GenerateRequest request;
  v1::ChatMessage* message = request.mutable_chat()->add_messages();
  message->set_role(v1::ROLE_USER);
  message->set_content(text);
  return request;
}

std::string text_of(const v1::GenerateResponse& response) {
  std::string text;
  for (const v1::CandidateDelta& delta : response.deltas()) {
    if (delta.candidate_index() == 0) text += delta.text();
  }
  return text;
}

}  // namespace headrace
