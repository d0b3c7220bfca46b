package why

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Answer is what `gantry why` printed.
type Answer struct {
	Text     string
	Cause    string
	Facts    []string
	Findings []Finding
	Fixes    []Fix
}

// Finding is one thing that the answer calls wrong, as data.
type Finding struct {
	Code     string            `json:"code"`
	Severity string            `json:"severity"`
	Field    string            `json:"field"`
	Value    string            `json:"value"`
	Want     string            `json:"want"`
	Numbers  map[string]string `json:"numbers"`
	Message  string            `json:"message"`
}

// Fix is a remedy of an answer.
type Fix struct {
	Description string   `json:"say"`
	Run         []string `json:"run"`
	Config      string   `json:"config"`
	Amend       *struct {
		Object, Type, Patch string
	} `json:"amend"`
	Proven bool `json:"proven"`
}

// Score is the result of one fixture.
type Score struct {
	Name string
	// the sentences of the cause have most of the facts, and claim nothing wrong: in place of a
	// reader's judgement
	Cause       bool
	Mention     bool
	Claim       bool
	Remedy      bool
	Missing     []string // facts that were not found
	Claimed     []string // wrong claims
	Tried       []string // remedies that were applied, and how they went
	Ineffective []string // of these, such as were printed as proven and did not help
	Answer      Answer
	Err         error // nothing could be scored
}

// Points are 0 to 4.
func (s Score) Points() int {
	n := 0
	for _, b := range []bool{s.Cause, s.Mention, s.Claim && s.Cause, s.Remedy} {
		if b {
			n++
		}
	}
	return n
}

// Explain asks the fixture's question in both forms.
func (w *Cluster) Explain(ctx context.Context) (Answer, error) {
	args := append(strings.Fields(w.f.Question), "--kubeconfig", w.Kubeconfig())
	text, errs, code := w.Gantry(ctx, args...)
	if code != 0 {
		return Answer{}, fmt.Errorf("gantry %s: %s%s", w.f.Question, text, errs)
	}
	raw, errs, code := w.Gantry(ctx, append(args, "-o", "json")...)
	if code != 0 {
		return Answer{}, errors.New(errs)
	}
	var a struct {
		Cause    string    `json:"cause"`
		Facts    []string  `json:"facts"`
		Findings []Finding `json:"findings"`
		Fixes    []Fix     `json:"fixes"`
	}
	if err := json.Unmarshal([]byte(raw), &a); err != nil {
		return Answer{}, err
	}
	return Answer{Text: text, Cause: a.Cause, Facts: a.Facts, Findings: a.Findings, Fixes: a.Fixes}, nil
}

// statements are what an answer states of its object: the sentences of the cause, each fact and
// each finding that is more than a note. What it proposes and headings are no statements, and a
// number of another line does not complete a fact: each pattern has to be met by one statement.
func (a Answer) statements() []string {
	out := append([]string{a.Cause}, a.Facts...)
	for _, f := range a.Findings {
		if f.Severity == "note" {
			continue
		}
		line := f.Message + " " + f.Field + " " + f.Value
		for _, k := range slices.Sorted(maps.Keys(f.Numbers)) {
			line += " " + k + " " + f.Numbers[k]
		}
		out = append(out, line)
	}
	return out
}

// Evaluate holds an answer against what is expected; the remedy point is given elsewhere. The cause
// counts when its own sentences have at least half of the facts, every fact is stated, and nothing
// wrong is claimed by cause or findings.
func Evaluate(f Fixture, a Answer) (Score, error) {
	s := Score{Name: f.Name, Answer: a}
	inCause := 0
	for _, m := range f.Expected.MustMention {
		stated := false
		for i, line := range a.statements() {
			ok, err := matches(m.Any, line)
			if err != nil {
				return s, err
			}
			if ok && i == 0 {
				inCause++
			}
			stated = stated || ok
		}
		if !stated {
			s.Missing = append(s.Missing, m.Fact)
		}
	}
	claims := a.Cause
	for _, x := range a.Findings {
		if x.Severity == "broken" {
			claims += "\n" + x.Message
		}
	}
	for _, c := range f.Expected.MustNotClaim {
		ok, err := matches(c.Any, claims)
		if err != nil {
			return s, err
		}
		if ok {
			s.Claimed = append(s.Claimed, c.Claim)
		}
	}
	s.Mention, s.Claim = len(s.Missing) == 0, len(s.Claimed) == 0
	s.Cause = s.Claim && 2*inCause >= len(f.Expected.MustMention) && a.Cause != ""
	return s, nil
}

func matches(patterns []string, text string) (bool, error) {
	for _, p := range patterns {
		re, err := regexp.Compile("(?i)" + p)
		if err != nil {
			return false, err
		}
		if re.MatchString(text) {
			return true, nil
		}
	}
	return false, nil
}

// Shell runs a printed command as a person would paste it, with kubectl and gantry on the path and
// the fixture's kubeconfig in force.
func (w *Cluster) Shell(ctx context.Context, line string) (string, error) {
	bin := filepath.Join(w.Dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	for name, target := range map[string]string{"kubectl": w.Binary(), "gantry": w.Binary()} {
		script := "#!/bin/sh\nexec " + target + " \"$@\"\n"
		if name == "kubectl" {
			script = "#!/bin/sh\nexec " + target + " kubectl \"$@\"\n"
		}
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+w.Kubeconfig())
	out, err := cmd.CombinedOutput()
	return string(out), err
}
