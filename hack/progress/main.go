// Command progress reads `go test -json` and prints one line per package as it ends, and the output
// of what failed. Its arguments are when the run began, in seconds since 1970 (times are printed
// from then), and a file that gets the failed packages, one a line; beside it, with .txt, what they
// printed.
//
// With -order LOG it reads packages and prints them in the order in which they shall be tested.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "-order" {
		if err := printOrder(os.Stdin, os.Stdout, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "progress:", err)
			os.Exit(1)
		}
		return
	}
	start := time.Now()
	if len(os.Args) > 1 {
		if s, err := strconv.ParseInt(os.Args[1], 10, 64); err == nil {
			start = time.Unix(s, 0)
		}
	}
	failed, said, err := run(os.Stdin, os.Stdout, start)
	if err == nil && len(os.Args) > 2 {
		err = errors.Join(os.WriteFile(os.Args[2], []byte(strings.Join(failed, "")), 0o644),
			os.WriteFile(os.Args[2]+".txt", []byte(said), 0o644))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "progress:", err)
		os.Exit(1)
	}
}

// run returns the packages that failed, one a line, and their output.
func run(in io.Reader, out io.Writer, start time.Time) (failed []string, failures string, err error) {
	var kept strings.Builder
	bad := io.MultiWriter(out, &kept)
	lines := bufio.NewReader(in)
	said := map[string][]string{} // by package and test; dropped when it passes
	var passed int                // packages
	tests := map[string]int{}     // by outcome
	skipped := skips{}
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprint(out, string(line))
				continue
			}
			key := e.Package + e.ImportPath + " " + e.Test
			at := fmt.Sprintf("%4.0fs", time.Since(start).Seconds())
			switch e.Action {
			case "output", "build-output":
				said[key] = append(said[key], e.Output)
			case "build-fail":
				fmt.Fprintf(bad, "%s  does not compile: %s\n", at, e.ImportPath)
				show(bad, said[key])
			case "pass", "skip", "fail":
				if e.Test != "" {
					tests[e.Action]++
					switch e.Action {
					case "fail":
						show(bad, said[key])
					case "skip":
						skipped.add(e, said[key])
					}
				} else if e.Action == "fail" {
					failed = append(failed, e.Package+"\n")
					fmt.Fprintf(bad, "%s  FAIL  %s  %.1fs\n", at, e.Package, e.Elapsed)
					show(bad, said[key])
				} else if e.Action == "pass" {
					passed++
					fmt.Fprintf(out, "%s  ok    %s  %.1fs\n", at, e.Package, e.Elapsed)
				}
				delete(said, key)
			}
		}
		if err == io.EOF {
			skipped.print(out)
			fmt.Fprintf(out, "packages: %d passed, %d failed\ntests:\n%d passed, %d failed, %d skipped\n", passed,
				len(failed), tests["pass"], tests["fail"], tests["skip"])
			return failed, kept.String(), nil
		}
		if err != nil {
			return failed, kept.String(), err
		}
	}
}

func show(out io.Writer, lines []string) {
	for _, l := range lines {
		fmt.Fprint(out, "        ", l)
	}
}
