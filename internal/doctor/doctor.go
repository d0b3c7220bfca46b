package doctor

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Level is how bad a finding is.
type Level int

// Levels.
const (
	OK      Level = iota // looked at, and as it should be
	Note                 // worth knowing
	Warning              // hurts some day, or lets in who should not be
	Problem              // hurts now
)

var levels = []string{"ok", "note", "warning", "problem"}

// String is the level's word.
func (l Level) String() string { return levels[l] }

// MarshalText is the level's word.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Finding is what one check says of one thing.
type Finding struct {
	Check string `json:"check"`
	About string `json:"about,omitempty"` // the node, file, endpoint it is about
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
}

// Facts is what was looked at. A nil part was not looked at.
type Facts struct {
	Now          time.Time
	Machine      *Machine
	Runtime      *Runtime
	Certificates []Certificate
	API          *API
	Nodes        []Node
	// NodeRoutes is which nodes cannot agree on how to reach each other's Pods, as text.
	NodeRoutes []string
	Grants     []AccessGrant
	ExecHops   []ExecHop
	Scheduler  *Scheduler
	Orphans    *Orphans
}

// Check is one row: a question to the facts.
type Check struct {
	Name     string
	About    string
	Evaluate func(Facts) []Finding
}

// Checks are all there are, in the order in which a person would ask: what stands below first.
func Checks() []Check {
	return []Check{
		{"cgroups", "the kernel has cgroup v2", cgroups},
		{"disk", "the file systems of Pods and images have room", disks},
		{"runtime", "the container runtime answers and is ready", runtimeReady},
		{"cgroup-driver", "kubelet and runtime name cgroups the same way", cgroupDriver},
		{"certificates", "no certificate ends soon", certificates},
		{"api-server", "the API server answers", apiServer},
		{"clock", "this machine's clock agrees with the API server's", clock},
		{"orphans", "no object lies in a namespace that does not exist", orphans},
		{"nodes", "the nodes are ready", nodes},
		{"kubelet-port", "nobody is let in to a kubelet's port without saying who it is", kubeletPort},
		{"read-only-port", "no kubelet tells of its Pods to everybody", readOnlyPort},
		{"kubelet-access", "only administrators may act through a kubelet's port", access},
		{"goroutines", "how much a kubelet does at once", goroutines},
		{"scheduling", "Pods are placed without delay", scheduling},
		{"names", "Pods are given servers to find names with", names},
		{"node-routes", "nodes agree on how they reach each other's Pods", nodeRoutes},
		{"exec-path", "every hop of kubectl exec answers", execPath},
	}
}

// Examine asks every check.
func Examine(f Facts) []Finding {
	var out []Finding
	for _, c := range Checks() {
		for _, found := range c.Evaluate(f) {
			found.Check = c.Name
			out = append(out, found)
		}
	}
	return out
}

// Worst is the highest level of the findings; OK when there are none.
func Worst(list []Finding) Level {
	worst := OK
	for _, f := range list {
		worst = max(worst, f.Level)
	}
	return worst
}

// Write prints findings, one line each with the remedy below.
func Write(w io.Writer, list []Finding) error {
	var b strings.Builder
	for _, f := range list {
		about := f.About
		if about != "" {
			about += ": "
		}
		fmt.Fprintf(&b, "%-8s%-15s%s%s\n", f.Level, f.Check, about, f.Text)
		if f.Fix != "" {
			fmt.Fprintf(&b, "%-23s→ %s\n", "", f.Fix)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
