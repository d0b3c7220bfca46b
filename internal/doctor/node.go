package doctor

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// Node is one node of the cluster.
type Node struct {
	Name       string
	Local      bool // it is this machine
	Ready      *v1.NodeCondition
	Address    string                              // host:port of its kubelet
	Anonymous  Answer                              // to GET /pods without credentials
	ReadOnly   Answer                              // to GET /pods on the read-only port, without TLS
	Config     *kubeletconfig.KubeletConfiguration // from /configz; nil: not requested
	Goroutines int64                               // go_goroutines of its /metrics; 0: not requested
	Fruitless  map[string]int64                    // gantry_evictions_fruitless of its /metrics, by signal
	Evictions  int64                               // kubelet_evictions of its /metrics, all signals together
	Resolver   *Resolver                           // its resolver file; nil: not read
	Calls      []DriverCall                        // of CSI drivers, not answered yet
	Registered []string                            // its CSI drivers; nil: not requested
	Unmirrored []UnmirroredPod                     // its static Pods without mirror; nil: not requested
}

// DriverCall is a call of a CSI driver that it has not answered yet.
type DriverCall struct {
	Driver, Method string
	Since          time.Time
}

// Answer is the answer of a port.
type Answer struct {
	Address string // host:port; empty: not requested
	Code    int    // HTTP status; 0 with Err
	Err     error
}

func nodes(f Facts) []Finding {
	if f.API == nil || f.API.Err != nil {
		return nil
	}
	if len(f.Nodes) == 0 {
		return []Finding{{Level: Warning, Text: "the cluster has no node",
			Fix: "start one: gantry kubelet --kubeconfig FILE"}}
	}
	var out []Finding
	for _, n := range f.Nodes {
		out = append(out, ready(n, f.Now))
	}
	return out
}

func nodeRoutes(f Facts) []Finding {
	var out []Finding
	for _, text := range f.NodeRoutes {
		out = append(out,
			Finding{Level: Problem, Text: text,
				Fix: "start every node with the same --node-routes and the same version of gantry"})
	}
	return out
}

func ready(n Node, now time.Time) Finding {
	f := Finding{About: n.Name}
	switch c := n.Ready; {
	case c == nil:
		f.Level, f.Text, f.Fix = Problem, "its kubelet has never said how it is",
			"see the kubelet's log (journalctl -u kubelet)"
	case c.Status == v1.ConditionUnknown:
		f.Level, f.Text = Problem, fmt.Sprintf("nothing was heard of its kubelet for %s: %s",
			now.Sub(c.LastHeartbeatTime.Time).Round(time.Second), c.Message)
		f.Fix = "start its kubelet, or mend the network between it and the API server; its Pods run on, and are " +
			"evicted when their tolerations end"
	case c.Status != v1.ConditionTrue:
		f.Level, f.Text, f.Fix = Problem,
			fmt.Sprintf("not ready since %s: %s: %s", c.LastTransitionTime.UTC().Format(time.RFC3339), c.Reason,
				c.Message), "mend what the message names"
	default:
		f.Text = "ready since " + c.LastTransitionTime.UTC().Format(time.RFC3339)
	}
	return f
}

// kubeletPort checks the answer to a request without credentials.
// https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/
func kubeletPort(f Facts) []Finding {
	const closeIt = "set authentication.anonymous.enabled: false and authorization.mode: Webhook in its " +
		"KubeletConfiguration, and restart it"
	var out []Finding
	for _, n := range f.Nodes {
		a := n.Anonymous
		about := n.Name + " (" + a.Address + ")"
		switch {
		case a.Address == "":
		case a.Err != nil:
			out = append(out, Finding{
				About: about, Level: Warning, Text: fmt.Sprintf("cannot be reached from here: %v", a.Err),
				Fix: "kubectl logs, exec and metrics need it from where the API server runs: open the port, or start " +
					"the kubelet",
			})
		case a.Code == http.StatusUnauthorized:
			out = append(out, Finding{About: about, Text: "asks everybody who they are"})
		case a.Code == http.StatusForbidden:
			out = append(out,
				Finding{About: about, Level: Warning,
					Text: "takes requests of nobody in particular (anonymous authentication is on); only RBAC keeps " +
						"them out", Fix: closeIt})
		case a.Code < http.StatusBadRequest:
			out = append(out,
				Finding{About: about, Level: Problem,
					Text: fmt.Sprintf("answers anybody: GET /pods without credentials gave %d; whoever reaches the "+
						"port can run commands in every container", a.Code), Fix: closeIt})
		default:
			out = append(out,
				Finding{About: about, Level: Note, Text: fmt.Sprintf("GET /pods without credentials gave %d", a.Code)})
		}
		if c := n.Config; c != nil && c.Authorization.Mode == kubeletconfig.KubeletAuthorizationModeAlwaysAllow {
			out = append(out,
				Finding{About: about, Level: Problem,
					Text: "authorization.mode is AlwaysAllow: every certificate and every token of the cluster may " +
						"run commands in every container", Fix: "set authorization.mode: Webhook"})
		}
	}
	return out
}

func readOnlyPort(f Facts) []Finding {
	var out []Finding
	for _, n := range f.Nodes {
		if a := n.ReadOnly; a.Address != "" && a.Err == nil && a.Code < http.StatusBadRequest {
			out = append(out, Finding{
				About: n.Name + " (" + a.Address + ")", Level: Warning,
				Text: "tells anybody without TLS which Pods run here, with their environment as far as it stands in " +
					"their specs",
				Fix: "set readOnlyPort: 0; metrics collectors ask port 10250 with a token",
			})
		}
	}
	return out
}

// goroutines checks the kubelet's number of goroutines: some fifty on a quiet node, several hundred
// on a busy one; one that only grows is a leak.
func goroutines(f Facts) []Finding {
	const many = 5000
	var out []Finding
	for _, n := range f.Nodes {
		switch {
		case n.Goroutines == 0:
		case n.Goroutines > many:
			out = append(out,
				Finding{About: n.Name, Level: Warning,
					Text: fmt.Sprintf("%d goroutines: calls hang, or something leaks", n.Goroutines),
					Fix: "kubelet_stuck_pod_seconds on its /metrics names steps that hang; /debug/pprof/goroutine " +
						"shows where"})
		default:
			out = append(out, Finding{About: n.Name, Text: fmt.Sprintf("%d goroutines", n.Goroutines)})
		}
	}
	return out
}

// evictions checks whether a node evicts Pods without having more of anything for it: its runtime
// frees nothing, or something that is no Pod takes what they give back.
func evictions(f Facts) []Finding {
	var out []Finding
	for _, n := range f.Nodes {
		if n.Goroutines == 0 { // its metrics were not read
			continue
		}
		worst := len(out)
		for _, signal := range slices.Sorted(maps.Keys(n.Fruitless)) {
			times := n.Fruitless[signal]
			switch {
			case times >= ineffectiveEvictions:
				out = append(out, Finding{About: n.Name, Level: Problem,
					Text: fmt.Sprintf("%d Pods in a row were evicted for %s and no more became available; it evicts "+
						"no more for a while", times, signal),
					Fix: "see whether Pods end (kubectl get pods -A --field-selector spec.nodeName=" + n.Name +
						") and the runtime frees what they held (gantry cri ps -a), and what else on the machine " +
						"takes it"})
			case times > 0:
				out = append(out, Finding{About: n.Name, Level: Note,
					Text: fmt.Sprintf("the last eviction for %s brought nothing", signal)})
			}
		}
		if len(out) == worst {
			out = append(out, Finding{About: n.Name, Text: fmt.Sprintf("%d Pods evicted since its kubelet started, "+
				"none in vain", n.Evictions)})
		}
	}
	return out
}

// ineffectiveEvictions is how many evictions in a row that bring nothing are a problem: the number
// at which the kubelet stops.
const ineffectiveEvictions = 3
