package logs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet/logs"
	"github.com/gantry-project/gantry/test/expect"
)

const sample = `2026-01-02T10:00:00.000000001Z stdout F one
2026-01-02T10:00:01Z stderr F two
2026-01-02T10:00:02.5+02:00 stdout F earlier
damaged line
2026-01-02T10:00:03Z stdout P long 
2026-01-02T10:00:03Z stdout F line
2026-01-02T10:00:04Z stdout F:x tagged
`

func write(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "0.log")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// row: KAP-05
func TestRead(t *testing.T) {
	n := func(i int64) *int64 { return &i }
	at := metav1.NewTime(time.Date(2026, 1, 2, 10, 0, 3, 0, time.UTC))
	for name, c := range map[string]struct {
		ask      v1.PodLogOptions
		out, err string
	}{
		"all":           {v1.PodLogOptions{}, "one\nearlier\nlong line\ntagged\n", "two\n"},
		"tail":          {v1.PodLogOptions{TailLines: n(2)}, "line\ntagged\n", ""},
		"tail none":     {v1.PodLogOptions{TailLines: n(0)}, "", ""},
		"tail too many": {v1.PodLogOptions{TailLines: n(99)}, "one\nearlier\nlong line\ntagged\n", "two\n"},
		"since":         {v1.PodLogOptions{SinceTime: &at}, "long line\ntagged\n", ""},
		"since seconds": {v1.PodLogOptions{SinceSeconds: n(1)}, "tagged\n", ""},
		"limit":         {v1.PodLogOptions{LimitBytes: n(6)}, "one\n", "tw"},
		"timestamps": {v1.PodLogOptions{Timestamps: true, TailLines: n(3)},
			"2026-01-02T10:00:03.000000000Z long line\n2026-01-02T10:00:04.000000000Z tagged\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			o := logs.FromPod(&c.ask, time.Date(2026, 1, 2, 10, 0, 5, 0, time.UTC))
			if err := logs.Read(t.Context(), logs.Request{Path: write(t, sample), Options: o, Out: &out,
				Err: &errOut}); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.out || errOut.String() != c.err {
				t.Errorf("stdout %q stderr %q, want %q %q", out.String(), errOut.String(), c.out, c.err)
			}
		})
	}
}

// row: KAP-05
func TestReadOneStream(t *testing.T) {
	var out bytes.Buffer
	if err := logs.Read(t.Context(),
		logs.Request{Path: write(t, sample), Options: logs.FromPod(&v1.PodLogOptions{}, time.Now()), Err: &out}); err !=
		nil {
		t.Fatal(err)
	}
	if out.String() != "two\n" {
		t.Errorf("stderr alone is %q, want \"two\\n\"", out.String())
	}
}

// row: KAP-05
func TestTailOfManyBlocks(t *testing.T) {
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, "2026-01-02T10:00:00Z stdout F line %d\n", i)
	}
	path := write(t, text.String())
	for _, tail := range []int64{1, 7, 500, 2000} {
		var out bytes.Buffer
		if err := logs.Read(t.Context(), logs.Request{Path: path, Options: logs.Options{Tail: tail, Bytes: -1},
			Out: &out}); err != nil {
			t.Fatal(err)
		}
		if got := int64(strings.Count(out.String(), "\n")); got != tail || !strings.HasPrefix(out.String(),
			fmt.Sprintf("line %d\n", 2000-tail)) {
			t.Errorf("tail %d: %d lines, begins %.20q", tail, got, out.String())
		}
	}
}

// row: KAP-05
func TestAbsentFile(t *testing.T) {
	err := logs.Read(t.Context(), logs.Request{Path: "/nowhere/0.log", Options: logs.Options{Tail: -1, Bytes: -1},
		Out: &bytes.Buffer{}})
	if err == nil || !strings.Contains(err.Error(), `failed to open log file "/nowhere/0.log"`) {
		t.Errorf(`got %v, want an error with 'failed to open log file "/nowhere/0.log"'`, err)
	}
}

// logBuffer is written by Read and looked at by the test.
type logBuffer struct{ expect.Buffer }

func (b *logBuffer) waitFor(t *testing.T, text string) {
	t.Helper()
	expect.EventuallyNoError(t, "the text of the log", func() error {
		if got := b.String(); !strings.Contains(got, text) {
			return fmt.Errorf("got %q, want %q in it", got, text)
		}
		return nil
	})
}

// row: KAP-05
func TestFollowAcrossRotation(t *testing.T) {
	path := write(t, "2026-01-02T10:00:00Z stdout F first\n")
	var out logBuffer
	var up atomic.Bool
	up.Store(true)
	done := make(chan error, 1)
	go func() {
		done <- logs.Read(t.Context(), logs.Request{
			Path: path, Options: logs.Options{Tail: -1, Bytes: -1, Follow: true}, Out: &out,
			IsRunning: func(context.Context) (bool, error) { return up.Load(), nil },
		})
	}()
	out.waitFor(t, "first")
	add := func(name, text string) {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	add(path, "2026-01-02T10:00:01Z stdout F sec")
	add(path, "ond\n")
	out.waitFor(t, "second")
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	add(path+".old", "2026-01-02T10:00:02Z stdout F late in the old file\n")
	add(path, "2026-01-02T10:00:03Z stdout F in the new file\n")
	out.waitFor(t, "in the new file")
	up.Store(false)
	add(path, "2026-01-02T10:00:04Z stdout F last words\n")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if want := "first\nsecond\nlate in the old file\nin the new file\nlast words\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// row: KAP-05
func TestFollowEndsWithTheClient(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out logBuffer
	done := make(chan error, 1)
	go func() {
		done <- logs.Read(ctx, logs.Request{
			Path: write(t, sample), Options: logs.Options{Tail: -1, Bytes: -1, Follow: true}, Out: &out,
			IsRunning: func(context.Context) (bool, error) { return true, nil },
		})
	}()
	out.waitFor(t, "tagged")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Right after a rotation the new file is empty: the last lines are in the rotated one.
//
// row: KAP-05
func TestTailAfterRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "0.log")
	entry := func(text string) string { return "2026-01-02T03:04:05.000000006Z stdout F " + text + "\n" }
	for name, text := range map[string]string{"0.log": "", "0.log.20260102-030400": entry("old"),
		"0.log.20260102-030405": entry("one") + entry("last"), "0.log.20260102-030300.gz": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(tail int64) string {
		var out bytes.Buffer
		if err := logs.Read(t.Context(), logs.Request{Path: path, Options: logs.Options{Tail: tail, Bytes: -1},
			Out: &out}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := read(1); got != "last\n" {
		t.Errorf("the last line is %q, want \"last\\n\"", got)
	}
	if err := os.WriteFile(path, []byte(entry("new")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := read(-1); got != "new\n" {
		t.Errorf("a log that has begun anew: %q, want \"new\\n\"", got)
	}
	if err := os.Remove(path); err != nil { // between renaming and the runtime's reopening
		t.Fatal(err)
	}
	if got := read(-1); got != "one\nlast\n" {
		t.Errorf("while there is no file: %q, want \"one\\nlast\\n\"", got)
	}
}
