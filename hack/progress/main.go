// Command progress reads `go test -json` and prints one line per package as it ends, and the output
// of what failed. Its arguments are when the run began, in seconds since 1970 (times are printed
// from then), a file that gets the failed packages, one a line (beside it, with .txt, what they
// printed), and the logs to read at once; without any it reads its standard input.
//
// With -lane NAME LOG it reads packages and prints those that one `go test` shall run, in their
// order: waiting packages, which run several at once, or computing ones. LOG is a former run's.
//
// With -cost FILE PROGRAM ARGUMENTS it runs a test's program and adds a line to costs.txt's form:
// `go test -exec` takes it as its program.
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
	code, err := do(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "progress:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// do does what the arguments ask for and returns the exit code.
func do(args []string) (int, error) {
	if len(args) == 3 && args[0] == "-lane" {
		return 0, printLane(os.Stdin, os.Stdout, lane(args[1]), args[2])
	}
	if len(args) > 2 && args[0] == "-cost" {
		return measure(args[1], args[2], args[3:]...)
	}
	start := time.Now()
	if len(args) > 0 {
		if s, err := strconv.ParseInt(args[0], 10, 64); err == nil {
			start = time.Unix(s, 0)
		}
	}
	logs := []io.Reader{os.Stdin}
	if len(args) > 2 {
		logs = nil
		for _, name := range args[2:] {
			f, err := os.Open(name)
			if err != nil {
				return 0, err
			}
			defer f.Close()
			logs = append(logs, f)
		}
	}
	failed, said, err := run(os.Stdout, start, logs...)
	if err == nil && len(args) > 1 {
		err = errors.Join(os.WriteFile(args[1], []byte(strings.Join(failed, "")), 0o644),
			os.WriteFile(args[1]+".txt", []byte(said), 0o644))
	}
	return 0, err
}

// run reads the logs at once and returns the packages that failed, one a line, and their output.
func run(out io.Writer, start time.Time, logs ...io.Reader) (failed []string, failures string, err error) {
	r := report{out: out, start: start, said: map[string][]string{}, tests: map[string]int{}, skipped: skips{}}
	lines, ends := make(chan []byte), make(chan error)
	for _, log := range logs {
		go func() { ends <- eachLine(log, lines) }()
	}
	for reading := len(logs); reading > 0; {
		select {
		case line := <-lines:
			r.add(line)
		case e := <-ends:
			reading--
			err = errors.Join(err, e)
		}
	}
	r.skipped.print(out)
	fmt.Fprintf(out, "packages: %d passed, %d failed\ntests:\n%d passed, %d failed, %d skipped\n", r.passed,
		len(r.failed), r.tests["pass"], r.tests["fail"], r.tests["skip"])
	return r.failed, r.kept.String(), err
}

// eachLine sends the lines of a log.
func eachLine(log io.Reader, to chan<- []byte) error {
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			to <- line
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// report is what has been read.
type report struct {
	out     io.Writer
	start   time.Time
	kept    strings.Builder     // what failures printed
	said    map[string][]string // by package and test; dropped when it passes
	failed  []string            // packages, one a line
	passed  int                 // packages
	tests   map[string]int      // by outcome
	skipped skips
}

// add takes one line of a log; one that is no event is printed as it is.
func (r *report) add(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		fmt.Fprint(r.out, string(line))
		return
	}
	bad := io.MultiWriter(r.out, &r.kept)
	key := e.Package + e.ImportPath + " " + e.Test
	at := fmt.Sprintf("%4.0fs", time.Since(r.start).Seconds())
	switch e.Action {
	case "output", "build-output":
		r.said[key] = append(r.said[key], e.Output)
	case "build-fail":
		fmt.Fprintf(bad, "%s  does not compile: %s\n", at, e.ImportPath)
		show(bad, r.said[key])
	case "pass", "skip", "fail":
		if e.Test != "" {
			r.tests[e.Action]++
			switch e.Action {
			case "fail":
				show(bad, r.said[key])
			case "skip":
				r.skipped.add(e, r.said[key])
			}
		} else if e.Action == "fail" {
			r.failed = append(r.failed, e.Package+"\n")
			fmt.Fprintf(bad, "%s  FAIL  %s  %.1fs\n", at, e.Package, e.Elapsed)
			show(bad, r.said[key])
		} else if e.Action == "pass" {
			r.passed++
			fmt.Fprintf(r.out, "%s  ok    %s  %.1fs\n", at, e.Package, e.Elapsed)
		}
		delete(r.said, key)
	}
}

func show(out io.Writer, lines []string) {
	for _, l := range lines {
		fmt.Fprint(out, "        ", l)
	}
}
