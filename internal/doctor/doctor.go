package doctor

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Level is the severity of a finding.
type Level int

// The levels.
const (
	OK      Level = iota // checked, and as it should be
	Note                 // worth knowing
	Warning              // will cause harm some day, or grants access too broadly
	Problem              // causes harm now
)

var levels = []string{"ok", "note", "warning", "problem"}

// String returns the level's name.
func (l Level) String() string { return levels[l] }

// MarshalText returns the level's name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Finding is one result of a check.
type Finding struct {
	Check string `json:"check"`
	About string `json:"about,omitempty"` // the node, file or endpoint
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
}

// Facts is what was gathered. A nil part was not gathered.
type Facts struct {
	Now          time.Time
	Machine      *Machine
	Runtime      *Runtime
	Certificates []Certificate
	API          *API
	Nodes        []Node
	// NodeRoutes are messages about nodes that do not agree on how to reach each other's Pods.
	NodeRoutes []string
	Grants     []AccessGrant
	ExecHops   []ExecHop
	Scheduler  *Scheduler
	Orphans    *Orphans
	Storage    *Storage
	Tokens     []Token
}

// Check is one row: a name and a function of Facts.
type Check struct {
	Name     string
	About    string
	Evaluate func(Facts) []Finding
}

// Checks returns all checks, what others depend on first.
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
		{"tokens", "Secrets for tokens of ServiceAccounts have one", tokens},
		{"nodes", "the nodes are ready", nodes},
		{"static-pods", "the API server shows the static Pods of nodes", staticPods},
		{"kubelet-port", "nobody is let in to a kubelet's port without saying who it is", kubeletPort},
		{"read-only-port", "no kubelet tells of its Pods to everybody", readOnlyPort},
		{"kubelet-access", "only administrators may act through a kubelet's port", access},
		{"goroutines", "how much a kubelet does at once", goroutines},
		{"csi-drivers", "CSI drivers answer, and are registered where Pods wait for them", drivers},
		{"volume-health", "no CSI driver says that a volume, or its storage, is not well", volumeHealth},
		{"attachments", "volumes are attached to nodes that are there", attachments},
		{"volumes-left", "Pods and volumes that are gone left nothing here", leftovers},
		{"evictions", "evictions of Pods bring the node what it is short of", evictions},
		{"scheduling", "Pods are placed without delay", scheduling},
		{"names", "Pods are given servers to find names with", names},
		{"node-routes", "nodes agree on how they reach each other's Pods", nodeRoutes},
		{"exec-path", "every hop of kubectl exec answers", execPath},
	}
}

// Examine runs all checks.
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

// Worst returns the highest level of the findings; OK if there are none.
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
