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
	// externalSuite are the tests of the driver, without those that stop a node's kubelet by ssh.
	externalSuite = `External.Storage`
	leftOut       = `\[Disruptive\]|\[Feature:Windows\]|groupsnapshot`
)

// storageImages are those that the tests of storage run.
var storageImages = []string{"agnhost", "busybox", "glibc-dns-testing", "hello-populator", "nginx", "pause"}

// storageParts are the runs: their results are kept one by one. Tests that disturb others come
// last.
var storageParts = []storagePart{
	{part{"grow", "!(Serial || Disruptive)", 4}, "volume-expand|topology|provisioning|volume-modify"},
	{part{"snapshots", "!(Serial || Disruptive)", 4}, "snapshottable|ephemeral|read-write-once-pod|" +
		"fsgroupchangepolicy|capacity"},
	{part{"sub-paths", "!(Serial || Disruptive)", 4}, "subPath|multiVolume"},
	{part{"volumes", "!(Serial || Disruptive)", 4}, ""},
	{part{"serial", "Serial && !Disruptive", 1}, ""},
}

// storagePart is a run of tests whose part of the suite matches; empty: of all that are left.
type storagePart struct {
	part
	suites string
}

// filters are ginkgo's focus and skip of one part: what an earlier one has with the same labels is
// left out. A focus of the user's takes the place of the part's, and all is one part then.
func filters(i int, focus, skip string) (f, s string) {
	s = leftOut
	if skip != "" {
		s += "|" + skip
	}
	p := storageParts[i]
	switch {
	case focus != "":
		return externalSuite + ".*(" + focus + ")", s
	case p.suites != "":
		return externalSuite + ".*\\] (" + p.suites + ") ", s
	}
	for _, before := range storageParts[:i] {
		if before.suites != "" && before.labels == p.labels {
			s += "|\\] (" + before.suites + ") "
		}
	}
	return externalSuite, s
}

// evaluateStorage runs upstream's External Storage suite against the cluster and prints the table.
// After each part the page is written of what is known by then: a run without focus and skip begins
// anew, another takes the place of its tests in what is kept of earlier ones. Failed tests are an
// error.
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
	about, err := o.about(ctx, s.tools)
	if err != nil {
		return err
	}
	r := &storageResults{file: filepath.Join(o.out, "storage.json")}
	if o.focus != "" || o.skip != "" {
		if err := r.read(); err != nil {
			return err
		}
	}
	if r.Selected, err = s.selected(ctx); err != nil {
		return err
	}
	var all []spec
	for i, p := range storageParts {
		if o.focus != "" && p.labels == storageParts[0].labels && i > 0 {
			continue // one part has them all
		}
		s.focus, s.skip = filters(i, o.focus, o.skip)
		step("running the %s part; %s follows it", p.name, filepath.Join(s.logs, p.name+".log"))
		specs, err := s.run(ctx, p.part)
		if err != nil {
			return err
		}
		all = append(all, specs...)
		r.add(about.Commit, specs)
		if err := r.write(); err != nil {
			return err
		}
		if err := os.WriteFile(storagePage, []byte(storageText(about, r)), 0o644); err != nil {
			return err
		}
		step("%s part: %s; wrote %s", p.name, countResults(specs), storagePage)
	}
	fmt.Printf("\n%s\n", storageTable(all))
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
	programs, err := filepath.Abs(sidecars)
	if err != nil {
		return err
	}
	if err := c.first.runProgram("snapshot-controller", filepath.Join(programs, "snapshot-controller"), kubeconfig,
		"--v=2", "--enable-distributed-snapshotting=true"); err != nil {
		return err
	}
	for _, n := range c.nodes() {
		if err := n.runProgram("csi-snapshotter", "env", "NODE_NAME="+n.name,
			filepath.Join(programs, "csi-snapshotter"), kubeconfig, "--v=2", "--node-deployment=true",
			"--csi-address="+filepath.Join(n.kubeletDir(), "plugins/local.csi.gantry.dev/csi.sock")); err != nil {
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
		"--kubelet-dir", n.kubeletDir(), "--volumes-dir", n.in("local-storage")); err != nil {
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

// storageText renders what is known as docs/compatibility/storage.md.
func storageText(a about, r *storageResults) string {
	return fmt.Sprintf("# Upstream's External Storage suite\n\nGantry at commit %s,\non %s, against the tests of "+
		"Kubernetes %s for drivers, with the driver\n`local.csi.gantry.dev` of `gantry up`, which runs on both nodes "+
		"with its volumes on xfs. Each node\nis a network, mounts and process ids of its own, with its kubelet in "+
		"/var/lib/kubelet\n(`--root-dir`). `make conformance-storage` runs them: upstream's suite and\n"+
		"external-snapshotter, built of their modules, with the definition\n[testdriver.yaml](../../%s). Tests that "+
		"stop kubelets by ssh, of\nWindows, and of groups of snapshots are left out. A skipped test needs what the "+
		"definition says\nthe driver does not do. The volume populator of the test of volume data sources is one "+
		"of ours\n(hack/conformance/populator): upstream's module cannot be had.\n\nOn a disk that does not share "+
		"blocks (ext4) the test of multiVolume that clones a raw volume in use\ndoes not pass: that is refused "+
		"there.\n\n%s%s",
		strings.Join(r.commits(), ", "), a.Date.UTC().Format(time.DateOnly), a.Version, storageDriver,
		r.missing(), storageTable(r.specs()))
}
