<?php

declare(strict_types=1);

use Headrace\CommandLine;
use PHPUnit\Framework\TestCase;

final class CommandLineTest extends TestCase
{
    public function testReadsEveryOption(): void
    {
        $given = [
            'target' => 'example:443', 'ca-certs' => 'ca.pem', 'certfile' => 'c.pem', 'keyfile' => 'k.pem',
            'api-key' => 'k1', 'max-tokens' => '7', 'timeout' => '1.5',
        ];
        $words = ['--tls', 'Hi'];
        foreach ($given as $name => $value) {
            array_push($words, "--$name", $value);
        }
        $wish = CommandLine::parse($words, '');
        self::assertEquals($given + ['tls' => ''], $wish->given);
        self::assertSame(
            '{"chat":{"messages":[{"role":"ROLE_USER","content":"Hi"}]},"stopping":{"maxOutputTokens":7}}',
            $wish->request()->serializeToJsonString(),
        );
    }

    public function testTakesTheKeyOfTheEnvironmentUnlessOneIsGiven(): void
    {
        self::assertSame('k1', CommandLine::parse(['Hi'], 'k1')->given['api-key']);
        self::assertSame('k2', CommandLine::parse(['--api-key', 'k2', 'Hi'], 'k1')->given['api-key']);
        self::assertSame(['target' => 'localhost:1920'], CommandLine::parse(['Hi'], '')->given);
    }

    public function testTakesWhatFollowsTwoHyphensAsThePrompt(): void
    {
        self::assertSame('--tls', CommandLine::parse(['--', '--tls'], '')->prompt);
    }

    /**
     * @dataProvider wrongArguments
     * @param list<string> $words
     */
    public function testRefusesWhatItDoesNotUnderstand(array $words, string $message): void
    {
        $this->expectException(InvalidArgumentException::class);
        $this->expectExceptionMessage($message);
        CommandLine::parse($words, '');
    }

    /** @return list<array{list<string>, string}> */
    public static function wrongArguments(): array
    {
        return [
            [[], 'give one PROMPT'],
            [['one', 'two'], 'give one PROMPT'],
            [['--verbose', 'Hi'], 'unknown option --verbose'],
            [['Hi', '--target'], '--target needs a value'],
            [['Hi', '--max-tokens', '1.5'], '--max-tokens must be a whole number'],
            [['Hi', '--timeout', '0'], '--timeout must be a number of seconds above 0'],
            [['Hi', '--keyfile', 'k.pem'], 'give --certfile and --keyfile together'],
        ];
    }
}
