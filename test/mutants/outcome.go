package mutants

import (
	"bufio"
	"encoding/json"
	"io"
	"regexp"
	"strings"
)

// Outcome is what the named tests made of a mutation.
type Outcome string

// A mutation is Killed when every named test failed with the expected message. All other outcomes
// say what went otherwise.
const (
	Killed       Outcome = "killed"
	Survived     Outcome = "survived"
	NotCompiled  Outcome = "does not compile"
	TimedOut     Outcome = "hangs"
	Panicked     Outcome = "panics"
	Skipped      Outcome = "skipped"
	WrongMessage Outcome = "fails with another message"
	NoSuchTest   Outcome = "no such test"
)

// event is one line of `go tool test2json`.
type event struct{ Action, Test, Output string }

func readEvents(r io.Reader) ([]event, error) {
	var out []event
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err == nil {
			out = append(out, e)
		}
	}
	return out, lines.Err()
}

// Decide says what the run of one test binary means for the test that was to fail, and returns the
// output of that test, or of the whole run where the test has none.
func Decide(events []event, want Test) (Outcome, string) {
	name := testName(want.Run)
	var of, whole strings.Builder
	action := ""
	for _, e := range events {
		whole.WriteString(e.Output)
		if e.Test != name && !strings.HasPrefix(e.Test, name+"/") {
			continue
		}
		of.WriteString(e.Output)
		if e.Test == name && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
			action = e.Action
		}
	}
	all := whole.String()
	switch {
	case strings.Contains(all, "panic: test timed out after"):
		return TimedOut, all
	case strings.Contains(all, "\npanic: ") || strings.HasPrefix(all, "panic: ") || strings.Contains(all,
		"fatal error: "):
		return Panicked, all
	}
	switch action {
	case "":
		return NoSuchTest, all
	case "pass":
		return Survived, of.String()
	case "skip":
		return Skipped, of.String()
	}
	if !regexp.MustCompile(want.Says).MatchString(of.String()) {
		return WrongMessage, of.String()
	}
	return Killed, of.String()
}

// testName is a test's name as the testing package prints it.
func testName(run string) string { return strings.ReplaceAll(run, " ", "_") }

// runPattern is the value of -run that selects exactly one test.
func runPattern(run string) string {
	parts := strings.Split(testName(run), "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}
