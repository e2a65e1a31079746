<?php

declare(strict_types=1);

namespace Headrace;

use CurlHandle;
use CurlMultiHandle;
use InvalidArgumentException;

/** A connection over which calls of gRPC are made, by the HTTP/2 of curl. */
final class Channel
{
    private const MAX_REQUEST_BYTES = 4 * 1024 * 1024;
    /** CURLE_HTTP2_STREAM, for which PHP has no name. */
    private const STREAM_ERROR = 92;

    private CurlMultiHandle $multi;
    /** What the address of a call begins with. */
    private readonly string $authority;
    /** @var array<int, Call> the calls that have not ended, by their handles */
    private array $calls = [];
    /** @var array<int, mixed> the options of curl that all calls have */
    private array $options;
    private bool $hasNews = false;
    private bool $isRunning = false;
    /** @var list<CurlHandle> what was dropped while curl was running */
    private array $dropped = [];

    /**
     * @param string $target host:port
     * @param bool $tls whether to encrypt, trusting the authorities of the system
     * @param ?string $caCerts a PEM file of certificates to trust instead
     * @param ?string $certfile a PEM file of the certificate to show
     * @param ?string $keyfile the PEM file of its key
     * @param ?string $serverName the name in the server's certificate, by default that of the target
     */
    public function __construct(
        private readonly string $target,
        private readonly bool $tls = false,
        ?string $caCerts = null,
        ?string $certfile = null,
        ?string $keyfile = null,
        ?string $serverName = null,
    ) {
        foreach (array_filter([$caCerts, $certfile, $keyfile], is_string(...)) as $file) {
            is_readable($file) || throw new InvalidArgumentException("cannot read $file");
        }
        if (($certfile === null) !== ($keyfile === null)) {
            throw new InvalidArgumentException('certfile and keyfile belong together');
        }
        $this->authority = $serverName ?? $target;
        $this->multi = curl_multi_init();
        // curl 7.88, which Debian 12 has, cannot use a connection again without TLS (its bug 10634).
        $isSingleUse = !$tls && intdiv(curl_version()['version_number'], 0x100) === 0x0758;
        $this->options = array_filter([
            CURLOPT_HTTP_VERSION => $this->tls ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE,
            CURLOPT_PIPEWAIT => !$isSingleUse, // calls share one connection
            CURLOPT_FRESH_CONNECT => $isSingleUse,
            CURLOPT_FORBID_REUSE => $isSingleUse,
            CURLOPT_PROXY => '', // of HTTP/1.1, mostly
            CURLOPT_TCP_KEEPALIVE => true,
            CURLOPT_POST => true,
            CURLOPT_CAINFO => $caCerts,
            CURLOPT_SSLCERT => $certfile,
            CURLOPT_SSLKEY => $keyfile,
            CURLOPT_CONNECT_TO => $serverName === null ? null : ["::$target"],
        ], fn ($value) => $value !== null);
    }

    /**
     * Prepares a call; it is sent with the first thing that is waited for. A request over the
     * limit of the contract is not: curl can lose the status of what is refused amid its sending.
     *
     * @param string $method such as headrace.v1.InferenceService/Generate
     * @param string $request the bytes of the message
     * @param array<string, string> $metadata text only
     * @param ?float $timeout the longest time, in seconds
     * @param bool $gzip whether to pack the request
     */
    public function call(
        string $method,
        string $request,
        array $metadata = [],
        ?float $timeout = null,
        bool $gzip = false,
    ): Call {
        if (preg_grep('/[\r\n\0]/', $metadata) !== []) { // they would end the header
            throw new InvalidArgumentException('a value of metadata is more than one line');
        }
        // The clock of curl begins here, too. A grpc-timeout has 8 digits at most.
        $millis = $timeout === null ? 0 : (int) max(1, min($timeout * 1000, 99_999_999));
        $handle = curl_init(($this->tls ? 'https://' : 'http://') . "$this->authority/$method");
        $call = new Call($this, $handle, $timeout === null ? null : microtime(true) + $timeout);
        if (strlen($request) > self::MAX_REQUEST_BYTES) {
            $call->fail(new Status('RESOURCE_EXHAUSTED', 'The request is larger than 4 MiB.'));

            return $call;
        }
        $headers = ['te' => 'trailers', 'content-type' => 'application/grpc', 'grpc-accept-encoding' => 'gzip']
            + ($gzip ? ['grpc-encoding' => 'gzip'] : [])
            + ($timeout === null ? [] : ['grpc-timeout' => "{$millis}m"])
            + ['user-agent' => 'headrace-php/0.1.0', 'expect' => ''] + $metadata;
        curl_setopt_array($handle, $this->options + [
            CURLOPT_POSTFIELDS => Call::frame($request, $gzip),
            CURLOPT_HTTPHEADER => array_map(fn ($name, $value) => "$name: $value", array_keys($headers), $headers),
            CURLOPT_TIMEOUT_MS => $millis,
            CURLOPT_HEADERFUNCTION => fn ($_, $line) => $this->news($call->takeHeader($line)),
            CURLOPT_WRITEFUNCTION => fn ($_, $piece) => $this->news($call->takeData($piece)),
        ]);
        $this->calls[spl_object_id($handle)] = $call;
        curl_multi_add_handle($this->multi, $handle);

        return $call;
    }

    /** Waits until something has come for any of the calls, a second at most. */
    public function wait(): void
    {
        $this->hasNews = false;
        $this->run();
        if (!$this->takeEnds() && !$this->hasNews) {
            curl_multi_select($this->multi, 1.0);
        }
    }

    /** @internal Ends a call before its time. */
    public function drop(Call $call): void
    {
        unset($this->calls[spl_object_id($call->handle)]);
        $this->dropped[] = $call->handle;
        if (!$this->isRunning) { // as it is where a signal comes amid it
            $this->run();
        }
    }

    /** Cancels what is running and closes the connection. A later call opens another. */
    public function close(): void
    {
        foreach ($this->calls as $call) {
            $call->cancel();
        }
        $this->multi = curl_multi_init(); // closes with the one before what that held
    }

    private function run(): void
    {
        do {
            while (($handle = array_pop($this->dropped)) !== null) {
                // curl keeps the reset of the stream back until something else is sent. So it shall
                // close the connection, which it does where no other call is on it.
                curl_setopt($handle, CURLOPT_FORBID_REUSE, true);
                curl_multi_remove_handle($this->multi, $handle);
            }
            $this->isRunning = true;
            try {
                curl_multi_exec($this->multi, $running);
            } finally { // a handler of signals may throw amid it
                $this->isRunning = false;
            }
        } while ($this->dropped !== []);
    }

    private function news(int $numBytes): int
    {
        $this->hasNews = true;

        return $numBytes;
    }

    private function takeEnds(): bool
    {
        $hasEnded = false;
        while (($end = curl_multi_info_read($this->multi)) !== false) {
            $handle = $end['handle'];
            $call = $this->calls[spl_object_id($handle)];
            curl_multi_remove_handle($this->multi, $handle);
            if (self::isUnsent($handle, $end['result']) && $call->restart()) {
                curl_multi_add_handle($this->multi, $handle);
                continue;
            }
            unset($this->calls[spl_object_id($handle)]);
            $call->end($end['result'], curl_error($handle) ?: curl_strerror($end['result']));
            $hasEnded = true;
        }

        return $hasEnded;
    }

    /**
     * Whether a call was ended by the server before it had the request. Then curl loses the status,
     * and, since nothing was done, the call can be made again.
     */
    private static function isUnsent(CurlHandle $handle, int $error): bool
    {
        return $error === self::STREAM_ERROR
            && curl_getinfo($handle, CURLINFO_SIZE_UPLOAD) < curl_getinfo($handle, CURLINFO_CONTENT_LENGTH_UPLOAD);
    }
}
