package ipam

import (
	"fmt"
	"testing"
)

func TestLeasesAndLinksWithoutSandboxAreFound(t *testing.T) {
	b := Allocations{Leases: []Lease{
		{Container: "runs", Interface: "eth0", Netns: "1", Link: "veth0000000001"},
		{Container: "gone", Interface: "eth0", Netns: "2", Link: "veth0000000002"},
		{Container: "unknown", Interface: "eth0", Netns: "3", Link: "veth0000000003"},
	}}
	seen := HostState{
		NetnsGone: func(netns string) bool { return netns == "2" },
		Links:     []string{"veth0000000001", "veth0000000009", "veth-of-a-person", "tap0", "veth0000000003"},
		Sandboxes: map[string]bool{"runs": true},
	}
	var missed map[string]int
	for i := 1; i <= MissedAudits; i++ {
		var f Findings
		f, missed = b.Audit(seen, missed)
		want := map[int]string{goneMissedAudits: " gone", MissedAudits: " unknown"}[i]
		got := ""
		for _, l := range f.Leases {
			got += " " + l.Container
		}
		if got != want || fmt.Sprint(f.Links) != "[veth0000000009]" || f.Empty() {
			t.Errorf("audit %d: leases%s, links %v", i, got, f.Links)
		}
		for _, l := range f.Leases {
			b.Release(l.Container, l.Interface)
		}
		if i == 2 { // a runtime that does not answer proves nothing about its sandboxes
			asked := seen.Sandboxes
			seen.Sandboxes = nil
			if f, missed = b.Audit(seen, missed); len(f.Leases) != 0 || missed["unknown/eth0"] != 2 {
				t.Errorf("without the runtime: %v, %v", f.Leases, missed)
			}
			seen.Sandboxes = asked
		}
	}
	// The count of a sandbox that is listed after all starts again.
	seen.Sandboxes["unknown"] = true
	if _, missed = b.Audit(seen, map[string]int{"unknown/eth0": MissedAudits - 1}); missed["unknown/eth0"] != 0 {
		t.Errorf("counted on: %v", missed)
	}
	if f, _ := (&Allocations{}).Audit(HostState{}, nil); !f.Empty() {
		t.Errorf("of nothing: %v", f)
	}
}

// With a runtime in another mount namespace no path is a network namespace: what it lists as ready
// is kept, and a sandbox being created has the usual time. If namespaces are visible, one listed as
// not ready and without namespace is released at once.
func TestLeasesOfReadySandboxesAreKept(t *testing.T) {
	all := Allocations{Leases: []Lease{
		{Container: "runs", Interface: "eth0", Netns: "1", Link: "veth0000000001"},
		{Container: "ended", Interface: "eth0", Netns: "2", Link: "veth0000000002"},
		{Container: "made", Interface: "eth0", Netns: "3", Link: "veth0000000003"},
	}}
	seen := HostState{NetnsGone: func(string) bool { return true },
		Sandboxes: map[string]bool{"runs": true, "ended": false}}
	var missed map[string]int
	for i := 1; i < MissedAudits; i++ {
		var f Findings
		if f, missed = all.Audit(seen, missed); !f.Empty() {
			t.Fatalf("audit %d without a view: %+v", i, f)
		}
	}
	if f, _ := all.Audit(seen, missed); len(f.Leases) != 1 || f.Leases[0].Container != "made" {
		t.Errorf("after %d audits: %+v", MissedAudits, f)
	}
	seen.NetnsGone = func(netns string) bool { return netns == "2" }
	if f, _ := all.Audit(seen, nil); len(f.Leases) != 1 || f.Leases[0].Container != "ended" {
		t.Errorf("with a view: got %+v, want Leases of length 1 and Leases[0].Container ended", f)
	}
	seen.NetnsGone, seen.Sandboxes = func(string) bool { return true }, nil
	if f, _ := all.Audit(seen, map[string]int{"made/eth0": MissedAudits}); !f.Empty() {
		t.Errorf("the runtime was not asked: %+v", f)
	}
}
