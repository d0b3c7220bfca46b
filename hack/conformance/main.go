// Command conformance runs the tests that Kubernetes certifies with, from upstream's own suite,
// against two nodes of Gantry on this machine, and renders the result into
// docs/compatibility/conformance.md. It is `make conformance`; it needs root, Debian's packages and
// the Go module proxy.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const pagePath = "docs/compatibility/conformance.md"

var startTime = time.Now()

func step(format string, args ...any) {
	fmt.Printf("%4.0f s  %s\n", time.Since(startTime).Seconds(), fmt.Sprintf(format, args...))
}

func main() {
	var o options
	flag.StringVar(&o.focus, "focus", "",
		"run only tests whose name this expression matches; the page is then not written")
	flag.StringVar(&o.skip, "skip", "",
		"leave out tests whose name this expression matches; the page is then not written")
	flag.StringVar(&o.labels, "labels", certified,
		"filter over ginkgo's labels; with another than the default the page is not written")
	flag.BoolVar(&o.storage, "storage", false,
		"run upstream's External Storage suite with the driver of local volumes instead, and write "+storagePage)
	flag.DurationVar(&o.timeout, "timeout", wholeTimeout, "end each of the two runs of the suite after this time")
	flag.StringVar(&o.bin, "bin", "build/bin", "where gantry, runc, the shim and the CNI plugin are")
	flag.StringVar(&o.out, "out", "build/conformance", "where upstream's programs and the logs go")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

const certified = "Conformance"

// wholeTimeout is longer than any run takes.
const wholeTimeout = 4 * time.Hour

type options struct {
	focus, skip, labels, bin, out string
	storage                       bool
	timeout                       time.Duration
}

// run runs everything and removes what it made. Failed tests are an error.
func (o options) run(ctx context.Context) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("nodes run real containers and need root: sudo make conformance")
	}
	for _, p := range []*string{&o.bin, &o.out} {
		if *p, err = filepath.Abs(*p); err != nil {
			return err
		}
	}
	runtime.LockOSThread() // machines end with the thread that began them
	unlock, err := lockMachine()
	if err != nil {
		return err
	}
	defer unlock()
	logs := filepath.Join(o.out, "logs")
	if err := errors.Join(os.RemoveAll(logs), os.MkdirAll(logs, 0o755)); err != nil {
		return err
	}
	if err := install(ctx); err != nil {
		return err
	}
	a := &imageSet{pause: filepath.Join(o.bin, "pause")}
	needed := programs
	if o.storage {
		needed, a.only = storagePrograms, storageImages
	}
	t, err := build(ctx, o.out, needed)
	if err != nil {
		return err
	}
	a.tools = t
	images, err := a.registryHandler(ctx)
	if err != nil {
		return err
	}
	c := &cluster{bin: o.bin, logs: logs, disks: o.storage}
	err = c.start(ctx, images)
	defer func() {
		step("taking the cluster away; the logs are in %s", logs)
		err = errors.Join(err, c.remove())
	}()
	if err != nil {
		return err
	}
	s := &suite{tools: t, cluster: c, logs: logs, focus: o.focus, skip: o.skip,
		timeout: o.timeout}
	if o.storage {
		return o.evaluateStorage(ctx, s)
	}
	return o.evaluate(ctx, s)
}

// lockMachine prevents a second run on this machine, which would use the same namespaces.
func lockMachine() (unlock func(), err error) {
	f, err := os.OpenFile("/run/gantry-conformance.lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errors.New("another make conformance runs on this machine; wait for its end"),
			f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// evaluate runs both parts, prints the table, and writes the page after a whole run.
func (o options) evaluate(ctx context.Context, s *suite) error {
	about, err := o.about(ctx, s.tools)
	if err != nil {
		return err
	}
	var all []spec
	for _, p := range parts(o.labels) {
		step("running the %s part; %s follows it", p.name, filepath.Join(s.logs, p.name+".log"))
		specs, err := s.run(ctx, p)
		if err != nil {
			return err
		}
		failed := 0
		for _, one := range specs {
			if one.State != "passed" {
				failed++
				fmt.Printf("        %s: %s\n          %s\n", one.State, one.Name,
					strings.ReplaceAll(strings.TrimSpace(one.Reason), "\n", "\n          "))
			}
		}
		step("%s part: %d tests, %d did not pass", p.name, len(specs), failed)
		all = append(all, specs...)
	}
	fmt.Printf("\n%s\n", table(all))
	whole := o.focus == "" && o.skip == "" && o.labels == certified
	if whole {
		if err := os.MkdirAll(filepath.Dir(pagePath), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(pagePath, []byte(page(about, all)), 0o644); err != nil {
			return err
		}
		step("wrote %s", pagePath)
	}
	return suiteError(all, about.Certified, whole)
}

// suiteError returns an error if a test did not pass, none ran, or a whole run left some out.
func suiteError(all []spec, certified int, whole bool) error {
	failed := 0
	for _, s := range all {
		if s.State != "passed" {
			failed++
		}
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %d tests did not pass", failed, len(all))
	case len(all) == 0:
		return errors.New("no test ran: no name matches")
	case whole && len(all) != certified:
		return fmt.Errorf("%d tests ran, the suite certifies with %d", len(all), certified)
	}
	return nil
}

// about says what was tested with what.
func (o options) about(ctx context.Context, t *tools) (about, error) {
	listed, err := output(ctx, "", t.path("e2e.test"), "--list-conformance-tests")
	if err != nil {
		return about{}, err
	}
	commit, err := output(ctx, "", "git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
	if err != nil {
		return about{}, err
	}
	return about{Commit: strings.TrimSpace(commit), Version: t.version, Date: startTime,
		Certified: strings.Count(listed, "- testname:")}, nil
}
