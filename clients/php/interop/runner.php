<?php

// Makes the calls of tests/interop: one scenario per line on stdin, what was seen on stdout.

declare(strict_types=1);

namespace Headrace\Interop;

use Exception;
use Headrace\Channel;

require __DIR__ . '/../autoload.php';
require __DIR__ . '/SeenCall.php';

ini_set('memory_limit', '512M');

$given = [];
foreach (array_chunk(array_slice($argv, 1), 2) as [$flag, $value]) {
    $given[ltrim($flag, '-')] = $value;
}
$channel = new Channel(
    $given['target'],
    isset($given['ca-certs']),
    $given['ca-certs'] ?? null,
    $given['certfile'] ?? null,
    $given['keyfile'] ?? null,
);
while (($line = fgets(STDIN)) !== false) {
    $scenario = json_decode($line);
    try {
        $requests = $scenario->requests ?? array_fill(0, $scenario->count ?? 1, $scenario->request ?? (object) []);
        $calls = array_map(
            fn (object $request) => new SeenCall($channel, $scenario, $request, $given['api-key'] ?? null),
            $requests,
        );
        $answer = ['calls' => SeenCall::finish($channel, $calls)];
    } catch (Exception $unknown) {
        $answer = ['unsupported' => $unknown->getMessage()];
    }
    $answer = ['id' => $scenario->id] + $answer;
    fwrite(STDOUT, json_encode($answer, JSON_UNESCAPED_UNICODE | JSON_THROW_ON_ERROR) . "\n");
}
