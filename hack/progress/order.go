package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// costs.txt has the costs of packages that take long, as -cost wrote them.
//
//go:embed costs.txt
var knownCosts string

// cost is what a package's tests took alone: seconds from begin to end, and those of the processor
// in them and in the programs that they started.
type cost struct{ seconds, processor float64 }

// A lane is the packages that one `go test` runs.
type lane string

const (
	// waiting packages leave the processor to others most of the time: several run at once.
	waiting lane = "waiting"
	// computing packages are all others.
	computing lane = "computing"
)

// short is the seconds under which a package computes, whatever else it does: its wait is over
// before another package would have used it.
const short = 5

// lane is waiting if less than half of the time is the processor's.
func (c cost) lane() lane {
	if c.seconds >= short && c.processor < c.seconds/2 {
		return waiting
	}
	return computing
}

// unknown is the cost assumed for a package with real containers or a cluster before it was
// measured.
var unknown = cost{seconds: 60, processor: 20}

// costOf is the cost of a package: measured, or assumed by its kind.
func costOf(pkg string, measured map[string]cost) cost {
	if c, ok := measured[directory(pkg)]; ok {
		return c
	}
	if strings.Contains(pkg, "/test/") || strings.Contains(pkg, "/testcluster") {
		return unknown
	}
	return cost{}
}

// directory is where a package is, from the top of the module.
func directory(pkg string) string {
	parts := strings.SplitN(pkg, "/", 4)
	return parts[len(parts)-1]
}

// printLane reads packages, one a line, and prints those of a lane in the order in which to start
// them: longest first by the given log of their last run, else by what is known of them.
func printLane(in io.Reader, out io.Writer, l lane, log string) error {
	if l != waiting && l != computing {
		return fmt.Errorf("lane %q: want %s or %s", l, waiting, computing)
	}
	measured, err := readCosts(strings.NewReader(knownCosts))
	if err != nil {
		return err
	}
	took := map[string]float64{}
	if f, err := os.Open(log); err == nil {
		defer f.Close()
		if took, err = times(f); err != nil {
			return err
		}
	}
	var all []string
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if p := strings.TrimSpace(lines.Text()); p != "" && costOf(p, measured).lane() == l {
			all = append(all, p)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	for _, p := range order(all, took, measured) {
		fmt.Fprintln(out, p)
	}
	return nil
}

// readCosts reads lines of a directory, seconds and seconds of the processor; the last line of a
// directory counts.
func readCosts(in io.Reader) (map[string]cost, error) {
	out := map[string]cost{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if lines.Text() == "" || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var dir string
		var c cost
		if _, err := fmt.Sscan(lines.Text(), &dir, &c.seconds, &c.processor); err != nil {
			return nil, fmt.Errorf("costs: %q: %w", lines.Text(), err)
		}
		out[dir] = c
	}
	return out, lines.Err()
}

// times returns the seconds of each package's last run in a log of `go test -json`. Results that
// come from the cache took none, so these packages are left out.
func times(log io.Reader) (map[string]float64, error) {
	took := map[string]float64{}
	cached := map[string]bool{}
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil && e.Test == "" {
			switch e.Action {
			case "output":
				cached[e.Package] = cached[e.Package] || strings.HasSuffix(e.Output, "\t(cached)\n")
			case "pass", "fail":
				if !cached[e.Package] {
					took[e.Package] = max(took[e.Package], e.Elapsed)
				}
			}
		}
		if err == io.EOF {
			return took, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// order puts the longest packages first: by their last run here, else by their cost.
func order(packages []string, took map[string]float64, measured map[string]cost) []string {
	weight := func(p string) float64 {
		if t, ok := took[p]; ok {
			return t
		}
		return costOf(p, measured).seconds
	}
	out := slices.Clone(packages)
	slices.SortStableFunc(out, func(a, b string) int {
		switch x, y := weight(a), weight(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return out
}
