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
use InvalidArgumentException;
use SensitiveParameter;

/** A client of a Headrace server, over one connection. Every call throws HeadraceException. */
final class Client
{
    private readonly string $target;
    private readonly Channel $channel;
    /** @var array<string, string> */
    private readonly array $metadata;

    /**
     * @param string $target host:port
     * @param ?string $apiKey the key to send with every call; without TLS it crosses the network in the clear
     * @param bool $tls whether to encrypt, trusting the authorities of the system
     * @param ?string $caCerts a PEM file of certificates to trust instead; it encrypts, too
     * @param ?string $certfile a PEM file of the certificate to show; it encrypts, too
     * @param ?string $keyfile the PEM file of its key
     * @param ?float $timeout the longest time of a call, an answer to its end, in seconds
     * @param ?string $serverName the name in the server's certificate, by default that of the target
     * @throws InvalidArgumentException the key or a file cannot be used
     */
    public function __construct(
        string $target = 'localhost:1920',
        #[SensitiveParameter] ?string $apiKey = null,
        bool $tls = false,
        ?string $caCerts = null,
        ?string $certfile = null,
        ?string $keyfile = null,
        private readonly ?float $timeout = null,
        ?string $serverName = null,
    ) {
        // The newline of a file is often left in. The key is not told: it is a secret.
        if ($apiKey !== null && preg_match('/^[!-~]+$/D', $apiKey) !== 1) {
            throw new InvalidArgumentException('the API key is not of visible ASCII characters');
        }
        $encrypts = $tls || $caCerts !== null || $certfile !== null || $serverName !== null;
        $this->target = $target;
        $this->channel = new Channel($target, $encrypts, $caCerts, $certfile, $keyfile, $serverName);
        $this->metadata = $apiKey === null ? [] : ['authorization' => "Bearer $apiKey"];
    }

    /**
     * Shows no key in var_dump and print_r.
     *
     * @return array<string, mixed>
     */
    public function __debugInfo(): array
    {
        return ['target' => $this->target, 'timeout' => $this->timeout];
    }

    /** Returns a chat of one message of the user. */
    public static function userMessage(string $content): Chat
    {
        return new Chat(['messages' => [new ChatMessage(['role' => Role::ROLE_USER, 'content' => $content])]]);
    }

    /** Continues a prompt or answers a chat. The call is sent when the stream is read. */
    public function generate(GenerateRequest $request): GenerationStream
    {
        return new GenerationStream($this->begin('InferenceService/Generate', $request));
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
        try {
            $status = $call->status();
        } finally { // a handler of signals may throw amid it
            $call->cancel();
        }
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
