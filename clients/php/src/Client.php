<?php

declare(strict_types=1);

namespace Headrace;

use Google\Protobuf\Internal\Message;
use Headrace\V1\Chat;
use Headrace\V1\ChatMessage;
use Headrace\V1\DetokenizeRequest;
use Headrace\V1\DetokenizeResponse;
use Headrace\V1\GenerateRequest;
use Headrace\V1\GetModelRequest;
use Headrace\V1\GetModelResponse;
use Headrace\V1\ListModelsRequest;
use Headrace\V1\ListModelsResponse;
use Headrace\V1\Model;
use Headrace\V1\Role;
use Headrace\V1\TokenizeRequest;
use Headrace\V1\TokenizeResponse;

/** A client of a Headrace server, over one connection. Every call throws HeadraceException. */
final class Client
{
    private readonly Channel $channel;
    /** @var array<string, string> */
    private readonly array $metadata;

    /**
     * @param string $target host:port
     * @param ?string $apiKey the key to send with every call
     * @param bool $tls whether to encrypt, trusting the authorities of the system
     * @param ?string $caCerts a PEM file of certificates to trust instead; it encrypts, too
     * @param ?string $certfile a PEM file of the certificate to show; it encrypts, too
     * @param ?string $keyfile the PEM file of its key
     * @param ?float $timeout the longest time of a call, in seconds
     */
    public function __construct(
        string $target = 'localhost:1920',
        ?string $apiKey = null,
        bool $tls = false,
        ?string $caCerts = null,
        ?string $certfile = null,
        ?string $keyfile = null,
        private readonly ?float $timeout = null,
    ) {
        $encrypts = $tls || $caCerts !== null || $certfile !== null;
        $this->channel = new Channel($target, $encrypts, $caCerts, $certfile, $keyfile);
        $this->metadata = $apiKey === null ? [] : ['authorization' => "Bearer $apiKey"];
    }

    /** Returns a chat of one message of the user. */
    public static function userMessage(string $content): Chat
    {
        return new Chat(['messages' => [new ChatMessage(['role' => Role::ROLE_USER, 'content' => $content])]]);
    }

    /** Continues a prompt or answers a chat. */
    public function generate(GenerateRequest $request): GenerationStream
    {
        return new GenerationStream(fn () => $this->begin('InferenceService/Generate', $request));
    }

    /** Turns a prompt into token ids. */
    public function tokenize(TokenizeRequest $request): TokenizeResponse
    {
        return $this->call('InferenceService/Tokenize', $request, new TokenizeResponse());
    }

    /** Turns token ids into text. */
    public function detokenize(DetokenizeRequest $request): DetokenizeResponse
    {
        return $this->call('InferenceService/Detokenize', $request, new DetokenizeResponse());
    }

    /** Gets a model by its name or an alias, by default the served one. */
    public function model(string $name = ''): Model
    {
        $request = new GetModelRequest(['name' => $name]);

        return $this->call('ModelService/GetModel', $request, new GetModelResponse())->getModel();
    }

    /**
     * Lists the served models.
     *
     * @return list<Model>
     */
    public function models(): array
    {
        $models = [];
        $request = new ListModelsRequest();
        do {
            $response = $this->call('ModelService/ListModels', $request, new ListModelsResponse());
            array_push($models, ...$response->getModels());
            $request->setPageToken($response->getNextPageToken());
        } while ($response->getNextPageToken() !== '');

        return $models;
    }

    /** Cancels what is running and closes the connection. */
    public function close(): void
    {
        $this->channel->close();
    }

    /**
     * @template T of Message
     * @param T $response
     * @return T
     */
    private function call(string $method, Message $request, Message $response): Message
    {
        $call = $this->begin($method, $request);
        $status = $call->status();
        if ($status->code !== 'OK') {
            throw new HeadraceException($status);
        }
        $response->mergeFromString($call->read() ?? '');

        return $response;
    }

    private function begin(string $method, Message $request): Call
    {
        return $this->channel->call(
            "headrace.v1.$method",
            $request->serializeToString(),
            $this->metadata,
            $this->timeout,
        );
    }
}
