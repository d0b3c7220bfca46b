package why

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Answer is what `gantry why` printed.
type Answer struct {
	Text  string
	Cause string
	Fixes []Fix
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
	// every must_mention fact is in the cause or beside it, and the cause claims nothing wrong:
	// in place of a reader's judgement
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
		Cause string `json:"cause"`
		Fixes []Fix  `json:"fixes"`
	}
	if err := json.Unmarshal([]byte(raw), &a); err != nil {
		return Answer{}, err
	}
	return Answer{Text: text, Cause: a.Cause, Fixes: a.Fixes}, nil
}

// Evaluate holds an answer against what is expected; the remedy point is given elsewhere.
func Evaluate(f Fixture, a Answer) (Score, error) {
	s := Score{Name: f.Name, Answer: a}
	for _, m := range f.Expected.MustMention {
		ok, err := matches(m.Any, a.Text)
		if err != nil {
			return s, err
		}
		if !ok {
			s.Missing = append(s.Missing, m.Fact)
		}
	}
	for _, c := range f.Expected.MustNotClaim {
		ok, err := matches(c.Any, a.Cause)
		if err != nil {
			return s, err
		}
		if ok {
			s.Claimed = append(s.Claimed, c.Claim)
		}
	}
	s.Mention, s.Claim = len(s.Missing) == 0, len(s.Claimed) == 0
	s.Cause = s.Claim && 2*len(s.Missing) <= len(f.Expected.MustMention) && a.Cause != ""
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
