package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	storagePage   = "docs/compatibility/storage.md"
	storageDriver = "hack/conformance/testdriver.yaml"
	sidecars      = "build/sidecars" // where hack/sidecars.sh builds
	// externalSuite are the tests of the driver, without those that fill a machine for hours.
	externalSuite = `External.Storage`
	leftOut       = `\[Slow\]|\[Disruptive\]|\[Feature:Windows\]|groupsnapshot`
)

// storageImages are those that the tests of storage run.
var storageImages = []string{"agnhost", "busybox", "nginx", "pause"}

// storageParts are the two runs, as parts has them.
var storageParts = []part{{"parallel", "!(Serial || Disruptive)", 3}, {"serial", "Serial && !Disruptive", 1}}

// evaluateStorage runs upstream's External Storage suite against the cluster, prints the table, and
// writes the page. Failed tests are an error.
func (o options) evaluateStorage(ctx context.Context, s *suite) error {
	if err := s.cluster.startDriver(ctx); err != nil {
		return err
	}
	if err := s.cluster.startSnapshots(ctx); err != nil {
		return err
	}
	driver, err := filepath.Abs(storageDriver)
	if err != nil {
		return err
	}
	s.args = []string{"--storage.testdriver=" + driver}
	limits := ""
	if o.focus != "" || o.skip != "" || o.timeout != wholeTimeout {
		limits = fmt.Sprintf("This run is a part of it: focus `%s`, skip `%s`, ended after %s at the latest.\n\n",
			o.focus, o.skip, o.timeout)
	}
	if s.focus == "" {
		s.focus = externalSuite
	} else {
		s.focus = externalSuite + ".*(" + s.focus + ")"
	}
	if s.skip == "" {
		s.skip = leftOut
	} else {
		s.skip = leftOut + "|" + s.skip
	}
	about, err := o.about(ctx, s.tools)
	if err != nil {
		return err
	}
	var all []spec
	for _, p := range storageParts {
		step("running the %s part; %s follows it", p.name, filepath.Join(s.logs, p.name+".log"))
		specs, err := s.run(ctx, p)
		if err != nil {
			return err
		}
		all = append(all, specs...)
	}
	text := storageTable(all)
	fmt.Printf("\n%s\n", text)
	if err := os.WriteFile(storagePage, []byte(storageText(about, limits, all)), 0o644); err != nil {
		return err
	}
	step("wrote %s", storagePage)
	failed := 0
	for _, one := range all {
		if one.State != "passed" && one.State != "skipped" {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d tests did not pass", failed, len(all))
	}
	if len(all) == 0 {
		return errors.New("no test ran: no name matches")
	}
	return nil
}

// startSnapshots installs the kinds of snapshots, and runs the snapshot controller and the
// csi-snapshotter of the driver on the first node.
func (c *cluster) startSnapshots(ctx context.Context) error {
	step("building the external-snapshotter")
	if _, err := output(ctx, "", "hack/sidecars.sh", sidecars); err != nil {
		return err
	}
	for _, kind := range []string{"volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots"} {
		if _, err := c.kubectl(ctx, "apply", "-f", filepath.Join(sidecars, "manifests/crd-"+kind+".yaml")); err != nil {
			return err
		}
		if _, err := c.kubectl(ctx, "wait", "crd/"+kind+".snapshot.storage.k8s.io", "--for=condition=Established",
			"--timeout=1m"); err != nil {
			return err
		}
	}
	kubeconfig := "--kubeconfig=" + c.kubeconfig()
	if err := c.first.runProgram("snapshot-controller", filepath.Join(sidecars, "snapshot-controller"), kubeconfig,
		"--v=2", "--enable-distributed-snapshotting=true"); err != nil {
		return err
	}
	for _, n := range c.nodes() {
		if err := n.runProgram("csi-snapshotter", "env", "NODE_NAME="+n.name,
			filepath.Join(sidecars, "csi-snapshotter"), kubeconfig, "--v=2", "--node-deployment=true",
			"--csi-address="+n.in("kubelet/plugins/local.csi.gantry.dev/csi.sock")); err != nil {
			return err
		}
	}
	return nil
}

// startDriver runs the driver on the node that joined, as docs/user/storage.md says.
func (c *cluster) startDriver(ctx context.Context) error {
	n := c.other
	kubeconfig := n.in("local-storage.kubeconfig")
	raw, err := os.ReadFile(c.first.in("local-storage.kubeconfig"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(kubeconfig, raw, 0o600); err != nil {
		return err
	}
	if err := n.runProgram("csi-driver", c.gantry(), "csi-driver", "--kubeconfig", kubeconfig, "--node-name", n.name,
		"--kubelet-dir", n.in("kubelet"), "--volumes-dir", n.in("local-storage")); err != nil {
		return err
	}
	return c.until(ctx, time.Minute, "the driver is there on both nodes", func() bool {
		out, _ := c.kubectl(ctx, "get", "csinodes", "-o", "jsonpath={.items[*].spec.drivers[*].name}")
		return len(strings.Fields(out)) == 2
	})
}

// suiteOf is the part of the suite that a test belongs to: the first words in brackets that are no
// label, like "[Testpattern: Dynamic PV (default fs)] volumes".
var suiteOf = regexp.MustCompile(`\[Testpattern: ([^\]]*)\](?: \[[^\]]*\])* ([A-Za-z-]+)`)

// storageTable counts tests by the part of the suite and names what did not pass.
func storageTable(all []spec) string {
	type count struct{ passed, skipped, failed int }
	counts := map[string]*count{}
	var failed []string
	total := count{}
	for _, s := range all {
		name := "other"
		if m := suiteOf.FindStringSubmatch(s.Name); m != nil {
			name = m[2]
		}
		if counts[name] == nil {
			counts[name] = &count{}
		}
		for _, c := range []*count{counts[name], &total} {
			switch s.State {
			case "passed":
				c.passed++
			case "skipped":
				c.skipped++
			default:
				c.failed++
			}
		}
		if s.State != "passed" && s.State != "skipped" {
			failed = append(failed, s.Name+" ("+s.State+")")
		}
	}
	var b strings.Builder
	b.WriteString("| Part | passed | failed | skipped |\n|---|---:|---:|---:|\n")
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		c := counts[name]
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", name, c.passed, c.failed, c.skipped)
	}
	fmt.Fprintf(&b, "| all | %d | %d | %d |\n", total.passed, total.failed, total.skipped)
	slices.Sort(failed)
	for i, name := range failed {
		if i == 0 {
			b.WriteString("\nDid not pass:\n\n")
		}
		fmt.Fprintf(&b, "- `%s`\n", name)
	}
	return b.String()
}

// storageText renders the result of a run as docs/compatibility/storage.md.
func storageText(a about, limits string, all []spec) string {
	return fmt.Sprintf("# Upstream's External Storage suite\n\nGantry at commit %s, on %s, against the tests of "+
		"Kubernetes %s\nfor drivers, with the driver `local.csi.gantry.dev` of `gantry up`. `make "+
		"conformance-storage` runs\nthem: upstream's suite and external-snapshotter, built of their modules, with "+
		"the definition\n[testdriver.yaml](../../%s). Tests that are slow or disruptive, of\nWindows, and of groups "+
		"of snapshots are left out. A skipped test needs what the definition says the\ndriver does not do.\n\n%s%s",
		a.Commit, a.Date.UTC().Format(time.DateOnly), a.Version, storageDriver, limits, storageTable(all))
}
