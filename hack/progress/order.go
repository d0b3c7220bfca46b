package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// printOrder reads packages, one a line, and prints them in the order in which to start them:
// longest first by the given log. Unknown packages with real containers come first, as they take
// longest.
func printOrder(in io.Reader, out io.Writer, log string) error {
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
		if p := strings.TrimSpace(lines.Text()); p != "" {
			all = append(all, p)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	for _, p := range order(all, took) {
		fmt.Fprintln(out, p)
	}
	return nil
}

// times returns the seconds of each package's last run in a log of `go test -json`.
func times(log io.Reader) (map[string]float64, error) {
	took := map[string]float64{}
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil && e.Test == "" && (e.Action == "pass" || e.Action == "fail") {
			took[e.Package] = max(took[e.Package], e.Elapsed)
		}
		if err == io.EOF {
			return took, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// unknown is the seconds assumed for a package with real containers before its first run.
const unknown = 60

func order(packages []string, took map[string]float64) []string {
	weight := func(p string) float64 {
		if t, ok := took[p]; ok {
			return t
		}
		if strings.Contains(p, "/test/") || strings.Contains(p, "/testcluster") {
			return unknown
		}
		return 0
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
