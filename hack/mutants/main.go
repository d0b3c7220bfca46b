// Command mutants breaks the product row by row and shows that the named tests notice (package
// test/mutants).
//
// Without -rows, -areas or -since it runs all mutations; those whose result of this very code is in
// -results are left out, so that a run which was broken off goes on. With -new those are left out
// too that such a result says were not killed. Every mutation that was not killed is printed with
// the end of what was printed, and the exit code is 1.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/gantry-project/gantry/test/mutants"
)

type options struct {
	rows, areas, tests, since, results string
	containers, again, baseline        bool
	fresh, alone                       bool
	parallel                           int
}

func main() {
	var o options
	flag.StringVar(&o.rows, "rows", "", "rows, comma separated; * stands for any digits: BND-06,API-1*")
	flag.StringVar(&o.areas, "areas", "", "areas, comma separated: BND,PRB")
	flag.StringVar(&o.tests, "tests", "", "directories of test packages: only mutations that name no other")
	flag.StringVar(&o.since, "since", "", "only mutations whose packages, or whose tests', changed since this commit")
	flag.StringVar(&o.results, "results", "test/mutants/results.jsonl", "file that keeps the results")
	flag.BoolVar(&o.containers, "containers", false,
		"those with real containers (root, after make build), one at a time")
	flag.BoolVar(&o.again, "again", false, "also those that were killed with this very code already")
	flag.BoolVar(&o.fresh, "new", false, "only those that were not run with this very code yet")
	flag.BoolVar(&o.alone, "alone", false, "compile each mutation alone, not with others of its package")
	flag.BoolVar(&o.baseline, "baseline", false, "first run the named tests without the mutation: they must pass")
	flag.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "mutations at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (bool, error) {
	root, err := os.Getwd()
	if err != nil {
		return false, err
	}
	all, err := mutants.Read("test/mutants/rows")
	if err != nil {
		return false, err
	}
	results, err := mutants.ReadResults(o.results)
	if err != nil {
		return false, err
	}
	chosen, err := choose(ctx, o, all)
	if err != nil {
		return false, err
	}
	left := chosen
	if !o.again {
		if left, err = mutants.Stale(root, chosen, results, !o.fresh); err != nil {
			return false, err
		}
	}
	fmt.Printf("%d mutations, %d of them known in this code\n", len(chosen), len(chosen)-len(left))
	if o.containers {
		o.parallel = 1
	}
	r := mutants.Runner{Root: root, Bin: filepath.Join(root, "build/bin")}
	if o.baseline {
		for _, m := range left {
			if err := r.Passes(ctx, m); err != nil {
				return false, err
			}
		}
	}
	start, n, alive := time.Now(), 0, 0
	runAll := r.RunAll
	if o.alone {
		runAll = r.RunAlone
	}
	err = runAll(ctx, left, o.parallel, func(m mutants.Mutation, res mutants.Result) {
		n++
		fmt.Printf("%4ds %d/%d %s: %s (%.0f s)\n", int(time.Since(start).Seconds()), n, len(left), m.ID(), res.Outcome,
			res.Seconds)
		if res.Outcome != mutants.Killed {
			alive++
			fmt.Printf("      %s\n%s\n", res.Test, indent(res.Output))
		}
		results[m.ID()] = res
		if err := mutants.WriteResults(o.results, results, all); err != nil {
			fmt.Fprintln(os.Stderr, "mutants:", err)
		}
	})
	fmt.Printf("%d run, %d killed, %d not\n", n, n-alive, alive)
	return alive == 0, err
}

func choose(ctx context.Context, o options, all []mutants.Mutation) ([]mutants.Mutation, error) {
	c := mutants.Choice{Rows: list(o.rows), Areas: list(o.areas), Tests: list(o.tests), Containers: o.containers}
	if o.since != "" {
		out, err := exec.CommandContext(ctx, "git", "diff", "--name-only", o.since, "--").Output()
		if err != nil {
			return nil, fmt.Errorf("git diff --name-only %s: %w", o.since, err)
		}
		c.Files = append([]string{}, strings.Fields(string(out))...)
	}
	return mutants.Choose(all, c), nil
}

func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

func indent(s string) string { return "        " + strings.ReplaceAll(s, "\n", "\n        ") }
