<?php

declare(strict_types=1);

namespace Headrace;

use CurlHandle;

/** One call of gRPC over HTTP/2: the messages as they come, the headers and the status. */
final class Call
{
    private const MAX_RESTARTS = 5;
    /** As gRPC has it elsewhere. A response of the contract has 1 MiB at most. */
    private const MAX_RESPONSE_BYTES = 4 * 1024 * 1024;

    private string $buffer = '';
    /** @var list<string> the messages that have come and are not read yet */
    private array $messages = [];
    /** @var array<string, string> */
    private array $headers = [];
    /** @var array<string, string> */
    private array $trailers = [];
    private bool $hasHeaders = false;
    private int $numRestarts = 0;
    private ?Status $status = null;

    /** @internal Channel makes calls. */
    public function __construct(
        private readonly Channel $channel,
        public readonly CurlHandle $handle,
        private readonly ?float $deadline,
    ) {
    }

    /** Packs a message as gRPC sends it. */
    public static function frame(string $message, bool $gzip = false): string
    {
        $message = $gzip ? gzencode($message) : $message;

        return pack('CN', $gzip ? 1 : 0, strlen($message)) . $message;
    }

    /** Waits for the next message; null where the call has ended. */
    public function read(): ?string
    {
        while ($this->messages === [] && $this->status === null) {
            $this->channel->wait();
        }

        return array_shift($this->messages);
    }

    /**
     * Waits for the headers of the response, and returns them, those named -bin decoded.
     *
     * @return array<string, string>
     */
    public function headers(): array
    {
        while (!$this->hasHeaders && $this->status === null) {
            $this->channel->wait();
        }

        return $this->headers;
    }

    /** Waits for the end of the call. */
    public function status(): Status
    {
        while ($this->status === null) {
            $this->channel->wait();
        }

        return $this->status;
    }

    /** Whether a message or the end can be read without waiting. */
    public function isReady(): bool
    {
        return $this->messages !== [] || $this->status !== null;
    }

    /** Ends the call at the server, too, if it has not ended. */
    public function cancel(): void
    {
        if ($this->status === null) {
            $this->status = new Status('CANCELLED', 'The call was cancelled.');
            $this->channel->drop($this);
        }
    }

    /** @internal Takes a line of headers or trailers. */
    public function takeHeader(string $line): int
    {
        if (trim($line) === '') {
            $this->hasHeaders = true;
            if (isset($this->headers['grpc-status'])) { // a response without messages has only these
                [$this->trailers, $this->headers] = [$this->headers, []];
            }
        } elseif (str_contains($line, ': ')) {
            [$name, $value] = explode(': ', rtrim($line, "\r\n"), 2);
            $name = strtolower($name);
            $value = str_ends_with($name, '-bin') ? base64_decode($value) : $value;
            $block = $this->hasHeaders ? 'trailers' : 'headers';
            $this->$block[$name] = isset($this->$block[$name]) ? "{$this->$block[$name]}, $value" : $value;
        }

        return strlen($line);
    }

    /** @internal Takes a piece of the body; 0 ends the transfer, since the piece cannot be used. */
    public function takeData(string $piece): int
    {
        $this->buffer .= $piece;
        $at = 0;
        while (strlen($this->buffer) >= $at + 5) {
            ['packed' => $packed, 'size' => $size] = unpack('Cpacked/Nsize', $this->buffer, $at);
            if ($size > self::MAX_RESPONSE_BYTES) {
                $this->fail(new Status('RESOURCE_EXHAUSTED', 'A response is larger than 4 MiB.'));

                return 0;
            }
            if (strlen($this->buffer) < $at + 5 + $size) {
                break;
            }
            $message = substr($this->buffer, $at + 5, $size);
            if ($packed === 1) {
                $message = @gzdecode($message, self::MAX_RESPONSE_BYTES);
                if ($message === false || strlen($message) > self::MAX_RESPONSE_BYTES) {
                    $this->fail(new Status('INTERNAL', 'A response is no gzip, or unpacks to more than 4 MiB.'));

                    return 0;
                }
            }
            $this->messages[] = $message;
            $at += 5 + $size;
        }
        $this->buffer = substr($this->buffer, $at);

        return strlen($piece);
    }

    /** @internal Makes the call ready to be sent once more; false where that is over. */
    public function restart(): bool
    {
        $millis = $this->deadline === null ? 0 : (int) (($this->deadline - microtime(true)) * 1000);
        if ($this->hasHeaders || $millis < 0 || ++$this->numRestarts > self::MAX_RESTARTS) {
            return false;
        }
        curl_setopt($this->handle, CURLOPT_TIMEOUT_MS, $this->deadline === null ? 0 : max(1, $millis));

        return true;
    }

    /** @internal Ends a call that is not sent, or whose responses cannot be used. */
    public function fail(Status $status): void
    {
        $this->status = $status;
    }

    /** @internal Takes the end of the transfer. */
    public function end(int $error, string $text): void
    {
        $this->status ??= match (true) {
            isset($this->trailers['grpc-status']) => Status::ofTrailers($this->trailers),
            // A server that keeps to the deadline may reset the stream before it is here.
            $error !== CURLE_OK && $this->deadline !== null && microtime(true) >= $this->deadline
                => Status::ofCurl(CURLE_OPERATION_TIMEDOUT, $text),
            $error !== CURLE_OK => Status::ofCurl($error, $text),
            default => Status::ofHttp((int) curl_getinfo($this->handle, CURLINFO_RESPONSE_CODE)),
        };
    }
}
