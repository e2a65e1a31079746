<?php

declare(strict_types=1);

namespace Headrace;

use Headrace\V1\GenerateRequest;
use Headrace\V1\Stopping;
use InvalidArgumentException;

/** The command line: sends a prompt as a chat and prints the answer as it comes. */
final class CommandLine
{
    private const USAGE = <<<'END'
        usage: headrace [--target HOST:PORT] [--tls] [--ca-certs FILE] [--certfile FILE --keyfile FILE]
                        [--api-key KEY] [--max-tokens N] [--timeout SECONDS] PROMPT
        END;
    private const FLAGS = ['target', 'ca-certs', 'certfile', 'keyfile', 'api-key', 'max-tokens', 'timeout'];

    /** @param array<string, string> $given the flags without their hyphens; `tls` is there or not */
    private function __construct(public readonly array $given, public readonly string $prompt)
    {
    }

    /**
     * Reads the arguments.
     *
     * @param list<string> $arguments
     * @throws InvalidArgumentException they cannot be understood
     */
    public static function parse(array $arguments, string $defaultKey): self
    {
        $given = ['target' => 'localhost:1920'] + ($defaultKey === '' ? [] : ['api-key' => $defaultKey]);
        $prompts = [];
        while (($word = array_shift($arguments)) !== null) {
            $name = str_starts_with($word, '--') ? substr($word, 2) : null;
            if ($name === null) {
                $prompts[] = $word;
            } elseif ($name === '') {
                array_push($prompts, ...array_splice($arguments, 0));
            } elseif ($name === 'tls') {
                $given['tls'] = '';
            } elseif (in_array($name, self::FLAGS, true)) {
                $given[$name] = array_shift($arguments) ?? throw new InvalidArgumentException("$word needs a value");
            } else {
                throw new InvalidArgumentException("unknown option $word");
            }
        }
        self::check($given, $prompts);

        return new self($given, $prompts[0]);
    }

    /**
     * Does what the arguments say and returns the exit status: 0, or 1 after an error, 2 for wrong
     * arguments, 130 after Ctrl-C.
     *
     * @param list<string> $arguments
     */
    public static function run(array $arguments): int
    {
        if (in_array('--help', $arguments, true)) {
            fwrite(STDOUT, self::USAGE . "\n");

            return 0;
        }
        try {
            $wish = self::parse($arguments, (string) getenv('HEADRACE_API_KEY'));
            $stream = $wish->client()->generate($wish->request());
        } catch (InvalidArgumentException $wrong) {
            fwrite(STDERR, self::USAGE . "\nerror: {$wrong->getMessage()}\n");

            return 2;
        }
        $isInterrupted = false;
        if (function_exists('pcntl_signal')) {
            pcntl_async_signals(true);
            pcntl_signal(SIGINT, function () use ($stream, &$isInterrupted): void {
                $isInterrupted = true;
                $stream->cancel();
            });
        }
        try {
            foreach ($stream->texts() as $text) {
                if (@fwrite(STDOUT, $text) === false) {
                    return 1; // nobody reads any more, as behind head
                }
            }
            fwrite(STDOUT, "\n");
        } catch (HeadraceException $error) {
            if (!$isInterrupted) {
                fwrite(STDERR, self::describe($error) . "\n");
            }

            return $isInterrupted ? 130 : 1;
        }

        return 0;
    }

    /** Returns the line that tells an error, such as "error: OVERLOADED: …; retry in 1.0 s". */
    public static function describe(HeadraceException $error): string
    {
        $line = 'error: ' . ($error->reason ?? $error->status->code) . ": {$error->getMessage()}";

        return $error->retryDelay === null ? $line : sprintf('%s; retry in %.1F s', $line, $error->retryDelay);
    }

    public function request(): GenerateRequest
    {
        $request = new GenerateRequest(['chat' => Client::userMessage($this->prompt)]);
        if (isset($this->given['max-tokens'])) {
            $request->setStopping(new Stopping(['max_output_tokens' => (int) $this->given['max-tokens']]));
        }

        return $request;
    }

    private function client(): Client
    {
        return new Client(
            $this->given['target'],
            $this->given['api-key'] ?? null,
            isset($this->given['tls']),
            $this->given['ca-certs'] ?? null,
            $this->given['certfile'] ?? null,
            $this->given['keyfile'] ?? null,
            isset($this->given['timeout']) ? (float) $this->given['timeout'] : null,
        );
    }

    /**
     * @param array<string, string> $given
     * @param list<string> $prompts
     */
    private static function check(array $given, array $prompts): void
    {
        $tokens = filter_var($given['max-tokens'] ?? '1', FILTER_VALIDATE_INT);
        $seconds = filter_var($given['timeout'] ?? '1', FILTER_VALIDATE_FLOAT);
        $wrong = match (true) {
            $tokens === false || abs($tokens) >= 2 ** 31 => '--max-tokens must be a whole number',
            $seconds === false || $seconds <= 0 => '--timeout must be a number of seconds above 0',
            isset($given['certfile']) !== isset($given['keyfile']) => 'give --certfile and --keyfile together',
            count($prompts) !== 1 => 'give one PROMPT; quote it if it has spaces',
            default => null,
        };
        if ($wrong !== null) {
            throw new InvalidArgumentException($wrong);
        }
    }
}
