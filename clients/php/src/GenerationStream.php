<?php

declare(strict_types=1);

namespace Headrace;

use Generator;
use Headrace\V1\GenerateResponse;
use IteratorAggregate;

/**
 * The answer to one request as it is made; it can be read once. The call is sent when reading
 * begins. Leaving a foreach early, by break or an exception, cancels it, as dropping the stream
 * does, and the server stops the work at once.
 *
 * @implements IteratorAggregate<int, GenerateResponse>
 */
final class GenerationStream implements IteratorAggregate
{
    /** @internal Client makes streams. */
    public function __construct(private readonly Call $call)
    {
    }

    public function __destruct()
    {
        $this->cancel();
    }

    /**
     * @return Generator<int, GenerateResponse>
     * @throws HeadraceException the call failed
     */
    public function getIterator(): Generator
    {
        try {
            while (($bytes = $this->call->read()) !== null) {
                $response = new GenerateResponse();
                $response->mergeFromString($bytes);
                yield $response;
            }
            if ($this->call->status()->code !== 'OK') {
                throw new HeadraceException($this->call->status());
            }
        } finally {
            $this->cancel();
        }
    }

    /**
     * The pieces of the text of the first candidate.
     *
     * @return Generator<int, string>
     */
    public function texts(): Generator
    {
        foreach ($this as $response) {
            foreach ($response->getDeltas() as $delta) {
                if ($delta->getCandidateIndex() === 0 && $delta->getText() !== '') {
                    yield $delta->getText();
                }
            }
        }
    }

    /** Reads the whole answer and returns the text of its first candidate. */
    public function text(): string
    {
        return implode('', iterator_to_array($this->texts(), false));
    }

    /** Cancels the call, if it has not ended: reading then throws, with the code CANCELLED. */
    public function cancel(): void
    {
        $this->call->cancel();
    }
}
