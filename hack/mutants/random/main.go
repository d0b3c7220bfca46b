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
)

const (
	home     = "hack/mutants/random"
	pageFile = "docs/contributing/mutants.md"
)

type options struct {
	packages, commit, build            string
	number, parallel                   int
	seed                               int64
	list, survivors, page, left, again bool
}

func main() {
	var o options
	flag.StringVar(&o.packages, "packages", "", "parts of package paths, comma separated; empty: all of packages.txt")
	flag.IntVar(&o.number, "n", 60, "mutations of a package")
	flag.Int64Var(&o.seed, "seed", 1, "which mutations are drawn")
	flag.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "mutations at a time")
	flag.StringVar(&o.build, "build", "build", "directory of random-mutants.json and of what is compiled")
	flag.StringVar(&o.commit, "commit", "", "the commit that the page names; empty: git's HEAD")
	flag.BoolVar(&o.list, "list", false, "print the drawn mutations and run nothing")
	flag.BoolVar(&o.survivors, "survivors", false, "print the mutations that survived, and run nothing")
	flag.BoolVar(&o.page, "page", false, "render "+pageFile+" and run nothing")
	flag.BoolVar(&o.left, "left", false, "only mutations that were not killed last time; the others keep their result")
	flag.BoolVar(&o.again, "again", false, "also mutations whose package and tests are as they were at their last run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "random:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	targets, err := readTargets(filepath.Join(home, "packages.txt"), o.packages)
	if err != nil {
		return err
	}
	store, err := openResults(filepath.Join(o.build, "random-mutants.json"))
	if err != nil {
		return err
	}
	switch {
	case o.page:
		return writePage(pageFile, store)
	case o.survivors:
		return printSurvivors(os.Stdout, store, targets)
	}
	packages, err := draw(ctx, targets, o)
	if err != nil {
		return err
	}
	if o.list {
		for _, p := range packages {
			fmt.Printf("%s: %d places, %d do not compile, %d change nothing\n", p.Path, p.Places, p.NotCompiling,
				p.Equivalent)
			for _, m := range p.drawn {
				fmt.Println("  ", m)
			}
		}
		return nil
	}
	if err := runAll(ctx, packages, o, store); err != nil {
		return err
	}
	return writePage(pageFile, store)
}

// draw reads the packages and draws mutations of each that compile and are not listed as changing
// nothing.
func draw(ctx context.Context, targets []target, o options) ([]*pkg, error) {
	packages, err := load(ctx, targets)
	if err != nil {
		return nil, err
	}
	same, err := readEquivalent(filepath.Join(home, "equivalent.yaml"))
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		all := p.mutations()
		p.Places = len(all)
		compiling, err := p.compiling(all)
		if err != nil {
			return nil, err
		}
		p.NotCompiling = len(all) - len(compiling)
		left := same.without(p.Path, compiling)
		p.Equivalent = len(compiling) - len(left)
		p.drawn = sample(left, o.seed, o.number)
	}
	return packages, same.stale(packages)
}

// version is the short name of the commit that was measured.
func version(ctx context.Context, given string) string {
	if given != "" {
		return given
	}
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=8", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func today() string { return time.Now().Format("2006-01-02") }
