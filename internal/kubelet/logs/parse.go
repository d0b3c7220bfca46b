package logs

import (
	"bytes"
	"fmt"
	"time"
)

// line is one line of a CRI log file: "2026-01-02T15:04:05.999999999Z stdout F the text".
type line struct {
	at      time.Time
	stream  string // stdout or stderr
	partial bool   // the text goes on in the next line of the stream
	text    []byte // with the newline it had, unless partial
}

// parse reads one line of the file, without its newline. The error shows the line.
func parse(raw []byte) (line, error) {
	when, rest, ok := bytes.Cut(raw, []byte{' '})
	if !ok {
		return line{}, fmt.Errorf("log line %.80q: the timestamp is not followed by a stream", raw)
	}
	at, err := time.Parse(time.RFC3339Nano, string(when))
	if err != nil {
		return line{}, fmt.Errorf("log line %.80q: %w", raw, err)
	}
	stream, rest, ok := bytes.Cut(rest, []byte{' '})
	if !ok || string(stream) != "stdout" && string(stream) != "stderr" {
		return line{}, fmt.Errorf("log line %.80q: stream %q is neither stdout nor stderr", raw, stream)
	}
	tags, text, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return line{}, fmt.Errorf("log line %.80q: the tag is not followed by a text", raw)
	}
	tag, _, _ := bytes.Cut(tags, []byte{':'}) // more tags may follow; the first says full or partial
	l := line{at: at, stream: string(stream), partial: string(tag) == "P"}
	if l.text = text; !l.partial {
		l.text = append(bytes.Clone(text), '\n')
	}
	return l, nil
}
