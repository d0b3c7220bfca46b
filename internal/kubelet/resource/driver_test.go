package resource_test

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	r "github.com/gantry-project/gantry/internal/kubelet/resource"
)

// row: QOS-09
func TestDriverOf(t *testing.T) {
	for _, x := range []struct{ configured, runtime, want, warns string }{
		{"", "", "cgroupfs", ""},
		{"systemd", "", "systemd", ""}, // a runtime that does not say
		{"", "systemd", "systemd", ""},
		{"cgroupfs", "cgroupfs", "cgroupfs", ""},
		{"systemd", "systemd", "systemd", ""},
		{"cgroupfs", "systemd",
			"systemd", `cgroup driver mismatch: the kubelet's configuration says "cgroupfs" and the container ` +
				`runtime ` +
				`uses "systemd"; the runtime's is taken, as both have to use the same. ` +
				`Set cgroupDriver: systemd in the KubeletConfiguration, or SystemdCgroup = false in the runtime's`},
		{"systemd", "cgroupfs", "cgroupfs",
			`Set cgroupDriver: cgroupfs in the KubeletConfiguration, or SystemdCgroup = true in the runtime's`},
	} {
		d, warning, err := r.DriverOf(x.configured, x.runtime)
		if err != nil || string(d) != x.want || (warning == "") != (x.warns == "") || !strings.Contains(warning,
			x.warns) {
			t.Errorf("configured %q, runtime %q: %q, %q, %v", x.configured, x.runtime, d, warning, err)
		}
	}
	for _, x := range [][3]string{{"runc", "", "cgroupDriver"}, {"", "cgroup2", "RuntimeConfig"}} {
		if _, _, err := r.DriverOf(x[0], x[1]); err == nil || !strings.Contains(err.Error(), x[2]) {
			t.Errorf("%q: got %v, want an error with %v", x, err, x[2])
		}
	}
}

// consumer is something that wants CPU, below a cgroup.
type consumer struct {
	wants  float64 // CPUs
	values r.Values
	below  []*consumer
	gets   float64
}

func (c *consumer) demand() float64 {
	sum := c.wants
	for _, b := range c.below {
		sum += b.demand()
	}
	if c.values.Quota != nil && *c.values.Quota > 0 {
		sum = min(sum, float64(*c.values.Quota)/float64(*c.values.Period))
	}
	return sum
}

// share divides CPUs as the kernel's fair scheduler does: by shares, and what one does not want
// goes to the others.
func share(cpus float64, among []*consumer) {
	open := slices.Clone(among)
	for len(open) > 0 {
		var sum float64
		for _, c := range open {
			sum += float64(*c.values.Shares)
		}
		sated := slices.IndexFunc(open,
			func(c *consumer) bool { return c.demand() <= cpus*float64(*c.values.Shares)/sum+1e-9 })
		if sated < 0 {
			for _, c := range open {
				c.give(cpus * float64(*c.values.Shares) / sum)
			}
			return
		}
		c := open[sated]
		c.give(c.demand())
		cpus -= c.gets
		open = slices.Delete(open, sated, sated+1)
	}
}

func (c *consumer) give(cpus float64) {
	c.gets = cpus
	share(cpus, c.below)
}

// program is a Pod's first container, which wants so many CPUs.
func program(p *v1.Pod, wants float64, o r.Options) *consumer {
	own := r.ForContainer(p, &p.Spec.Containers[0], r.Node{MemoryBytes: 64 << 30}, o)
	shares, period := uint64(own.CpuShares), uint64(own.CpuPeriod)
	return &consumer{wants: wants, values: r.Values{Shares: &shares, Quota: &own.CpuQuota, Period: &period}}
}

// Neither the tier nor the Pod nor the container keeps a BestEffort Pod from what others leave.
//
// row: QOS-05
func TestBestEffortMayUseWhatOthersLeave(t *testing.T) {
	o := r.Options{CFSQuota: true}
	four := podOf(container("a", list("cpu", "4", "memory", "1Gi"), list("cpu", "4", "memory", "1Gi")))
	none := podOf(container("a", nil, nil))
	if r.QOS(four) != v1.PodQOSGuaranteed || r.QOS(none) != v1.PodQOSBestEffort {
		t.Fatalf("got classes %s and %s, want %s and %s", r.QOS(four), r.QOS(none), v1.PodQOSGuaranteed,
			v1.PodQOSBestEffort)
	}
	for _, x := range []struct{ busy, wants, gets float64 }{
		{4, 16, 12},  // the node's sixteen without the four that are used
		{1, 16, 15},  // what is guaranteed and not used is anybody's
		{16, 16, 12}, // nobody takes more than its limit
		{4, 3, 3},
	} {
		guaranteed := &consumer{values: r.ForPod(four, o), below: []*consumer{program(four, x.busy, o)}}
		greedy := &consumer{values: r.ForPod(none, o), below: []*consumer{program(none, x.wants, o)}}
		share(16, []*consumer{guaranteed, {values: r.ForBestEffort(), below: []*consumer{greedy}}})
		if want := min(x.busy, 4); guaranteed.gets < want-0.01 || greedy.gets < x.gets-0.01 ||
			greedy.gets > x.gets+0.01 {
			t.Errorf("Guaranteed wants %.0f and gets %.2f; BestEffort wants %.0f and gets %.2f, want %.0f", x.busy,
				guaranteed.gets, x.wants, greedy.gets, x.gets)
		}
	}
}
