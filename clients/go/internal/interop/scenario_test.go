package main

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestALineReplacesTheKeyForItselfAlone(t *testing.T) {
	lines := json.NewDecoder(strings.NewReader(`{"api_key": "other"} {"api_key": null} {}`))
	for _, want := range []string{"other", "", "own"} {
		line, err := nextScenario(lines, "own")
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if line.APIKey != nil {
			got = *line.APIKey
		}
		if got != want {
			t.Errorf("got the key %q, want %q", got, want)
		}
	}
	if _, err := nextScenario(lines, "own"); !errors.Is(err, io.EOF) {
		t.Errorf("got %v at the end, want io.EOF", err)
	}
}

func TestRequestsOfALine(t *testing.T) {
	tests := []struct{ line, want string }{
		{`{}`, `{}`},
		{`{"request": {"text": "a"}}`, `{"text": "a"}`},
		{`{"request": {}, "count": 3}`, `{} {} {}`},
		{`{"requests": [{"text": "a"}, {}]}`, `{"text": "a"} {}`},
	}
	for _, test := range tests {
		line, err := nextScenario(json.NewDecoder(strings.NewReader(test.line)), "")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, request := range line.requests() {
			got = append(got, string(request))
		}
		if joined := strings.Join(got, " "); joined != test.want {
			t.Errorf("%s asks for %s, want %s", test.line, joined, test.want)
		}
	}
}
