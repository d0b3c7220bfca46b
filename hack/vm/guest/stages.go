package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/internal/journal"
)

// figure prints a figure for hack/vm, which keeps it.
func (t *timeline) figure(name string, d time.Duration) {
	raw, err := json.Marshal(result.Value(name, "ms", result.Milliseconds(d)))
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "figure %s\n", raw)
}

// reaction says how long the node took from what the kernel told to the signals that end the
// victim, and gives the stages between.
func (n *node) reaction(ctx context.Context, who, victim string, since time.Duration, pids []int) {
	sent := n.kernel.sent(pids, since)
	if len(sent) == 0 {
		n.expect(false, "no signal to processes %v was seen", pids)
		return
	}
	for _, s := range sent {
		n.sayAt(s.at, "kernel: %s to process %d (%s) from %s", unix.SignalName(unix.Signal(s.number)), s.pid, s.comm,
			s.from)
	}
	first := sent[0]
	name := unix.SignalName(unix.Signal(first.number))
	for _, what := range []string{crossed, stalled, events} {
		times := n.kernel.since(what, since)
		if len(times) == 0 || times[0] > first.at {
			n.say("%s: not before the victim was told to end", what)
			continue
		}
		n.say("from %q to the victim's %s: %d ms", what, name, (first.at - times[0]).Milliseconds())
		n.figure(who+"/"+what+" → "+name, first.at-times[0])
	}
	if len(sent) > 1 {
		n.figure(who+"/"+name+" → last signal", sent[len(sent)-1].at-first.at)
	}
	n.journalStages(ctx, who, victim, since, first.at)
}

// sinceBoot converts a time of the journal to the kernel's clock.
func sinceBoot(at time.Time) time.Duration { return now() - time.Since(at) }

// journalStages says, by the victim's journal, when Gantry had decided and what it did until the
// first signal. Upstream has no journal.
func (n *node) journalStages(ctx context.Context, who, victim string, since, signal time.Duration) {
	raw, err := n.api.CoreV1().RESTClient().Get().AbsPath("/apis/journal.gantry.dev/v1alpha1/namespaces/default",
		"podjournals", victim).SetHeader("Accept", "application/json").DoRaw(ctx)
	var all struct{ Entries []journal.Entry }
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	if err != nil {
		n.say("no journal of %s: %v", victim, err)
		return
	}
	from := since
	if times := n.kernel.since(crossed, since); len(times) > 0 && times[0] < signal {
		from = times[0]
	}
	told := map[string]bool{} // a runtime that does not come back is asked again
	for _, e := range all.Entries {
		var stage string
		switch f := e.Fact.(type) {
		case journal.Evicted:
			stage = "decided"
		case journal.Killing:
			if f.Container != "" {
				stage = "stop begun"
			}
		case journal.StopStep:
			stage = f.Step
		}
		at := sinceBoot(e.At)
		if stage == "" || told[stage] || at < since {
			continue
		}
		told[stage] = true
		n.sayAt(at, "journal of %s: %s", victim, e.Fact.Line())
		n.figure(who+"/"+crossed+" → "+stage, at-from)
	}
}

var klogLine = regexp.MustCompile(`^[IWE]\d{4} (\d\d:\d\d:\d\d\.\d{6})\s+\d+ \S+\] (.*)`)

// logStages says what a program's log has of evictions since a time.
func (n *node) logStages(file string, since time.Duration) {
	raw, _ := os.ReadFile(file)
	for line := range strings.Lines(string(raw)) {
		m := klogLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || !strings.Contains(strings.ToLower(m[2]), "eviction manager") {
			continue
		}
		clock, err := time.ParseInLocation("15:04:05.000000", m[1], time.Local)
		if err != nil {
			continue
		}
		y, month, d := time.Now().Date()
		at := sinceBoot(time.Date(y, month, d, clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(),
			time.Local))
		if at >= since {
			n.sayAt(at, "log: %s", m[2])
		}
	}
}
