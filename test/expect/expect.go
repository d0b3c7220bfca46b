// Package expect has the checks that tests of many packages share: NoError, as the e2e framework's
// ExpectNoError; Eventually, as Gomega's, which polls for what no event announces; Within, for what
// is to take a time at most.
//
// In: the test and what is expected. Out: a failure that ends the test. All run in the goroutine of
// the test; in a synctest bubble they take the bubble's time.
package expect

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	timeout  = time.Minute
	interval = 5 * time.Millisecond
)

// NoError ends the test if err is not nil.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got error %v, want none", err)
	}
}

// PatienceVariable is the environment variable with the longest Patience, a duration.
const PatienceVariable = "GANTRY_TEST_PATIENCE"

// Patience is how long a test waits for what has to come: most, which leaves room for a machine
// that is busy, or less where PatienceVariable says so, as runs of mutations do: what is broken
// there never comes.
func Patience(most time.Duration) time.Duration {
	if d, err := time.ParseDuration(os.Getenv(PatienceVariable)); err == nil && d < most {
		return d
	}
	return most
}

// Eventually polls until ok returns true, for a minute at most; what describes it.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	EventuallyNoError(t, what, func() error {
		if !ok() {
			return fmt.Errorf("got false, want true")
		}
		return nil
	})
}

// EventuallyNoError polls until f returns nil, for a minute at most, and fails with its last error;
// what describes it.
func EventuallyNoError(t testing.TB, what string, f func() error) {
	t.Helper()
	Poll(t, interval, timeout, what, f)
}

// Lazy is an error whose text is made when it is printed: for what takes long to say and is needed
// of the last try only.
type Lazy func() string

// Error is the text.
func (l Lazy) Error() string { return l() }

// Poll calls f every so often until it returns nil, and fails with its last error when it did not
// within the time; what describes it. A call that takes long, as one of a program does, is followed
// by a longer pause: what is waited for needs the machine too.
func Poll(t testing.TB, every, within time.Duration, what string, f func() error) {
	t.Helper()
	patience := Patience(within)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		began := time.Now()
		err := f()
		if err == nil {
			return
		}
		select {
		case <-time.After(pause(every, time.Since(began))):
		case <-limit.C:
			t.Fatalf("%s: not within %s: %v", what, patience, err)
		case <-t.Context().Done():
			t.Fatalf("%s: the test ended first: %v", what, err)
		}
	}
}

// longestPause bounds what is added to a pause.
const longestPause = 500 * time.Millisecond

// pause is how long Poll waits after a call that took so long.
func pause(every, took time.Duration) time.Duration {
	return max(every-took, min(2*took, longestPause))
}

// Within runs f again and again, for a minute at most and three times at least, until it took no
// longer than most once: in the other runs the machine did something else. It returns the shortest
// time; what describes f.
func Within(t testing.TB, most time.Duration, what string, f func()) time.Duration {
	t.Helper()
	const least = 3
	best := time.Duration(-1)
	for begin, n := time.Now(), 0; n < least || time.Since(begin) < Patience(timeout); n++ {
		began := time.Now()
		f()
		if took := time.Since(began); best < 0 || took < best {
			best = took
		}
		if best <= most {
			return best
		}
	}
	t.Errorf("%s took %s at best, want %s at most", what, best, most)
	return best
}

// Value returns v of a call that returned no error; it panics at one, and so also serves where
// tables of tests are built.
func Value[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// ErrorText is the text of err; "" when it is nil.
func ErrorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// File is what the file at path has, from the directory of the test.
func File(t testing.TB, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// ErrorTexts are findings of validation, a line each.
func ErrorTexts(list field.ErrorList) string {
	out := make([]string, 0, len(list))
	for _, e := range list {
		out = append(out, e.Error())
	}
	return strings.Join(out, "\n")
}

// Buffer is written by one goroutine and read by others. The zero value is empty.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends; it never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
