package journal

import (
	"fmt"
	"strings"
)

// TrafficBegins says that a node's rules now send traffic of a Service to the Pod.
type TrafficBegins struct {
	Service  string `json:"service"`  // NAMESPACE/NAME
	Endpoint string `json:"endpoint"` // address
	Took     Took   `json:"took"`     // from the watch event to the rule in the kernel
}

// Line prints Service and time.
func (f TrafficBegins) Line() string {
	return fmt.Sprintf("gets traffic of Service %s at %s, %s after the node heard of it", f.Service, f.Endpoint, f.Took)
}

// TrafficEnds says that a node's rules no longer send new connections to a Service to the Pod.
type TrafficEnds struct {
	Service  string `json:"service"`  // NAMESPACE/NAME
	Endpoint string `json:"endpoint"` // address
	Took     Took   `json:"took"`     // from the watch event to the rule in the kernel
}

// Line prints Service and time.
func (f TrafficEnds) Line() string {
	return fmt.Sprintf("gets no more traffic of Service %s at %s, %s after the node heard of it", f.Service, f.Endpoint,
		f.Took)
}

// RulesChanged says that a node's rules for a Service have other endpoints now.
type RulesChanged struct {
	Endpoints int  `json:"endpoints"` // their number now
	Added     int  `json:"came,omitempty"`
	Removed   int  `json:"left,omitempty"`
	Took      Took `json:"took"` // from the watch event to the rule in the kernel
}

// Line prints the numbers.
func (f RulesChanged) Line() string {
	return fmt.Sprintf("rules lead to %d endpoints (%d came, %d left), %s after the node heard of it", f.Endpoints,
		f.Added, f.Removed, f.Took)
}

// PoliciesChanged says that other NetworkPolicies select the Pod now, on its node.
type PoliciesChanged struct {
	// names of the policies for ingress; none: not isolated
	Ingress []string `json:"ingress,omitempty"`
	Egress  []string `json:"egress,omitempty"` // for egress
	Took    Took     `json:"took"`             // from the watch event to the rule in the kernel
}

// Line prints the policies.
func (f PoliciesChanged) Line() string {
	var parts []string
	if len(f.Ingress) > 0 {
		parts = append(parts, "receives only what NetworkPolicy "+strings.Join(f.Ingress, ", ")+" allows")
	}
	if len(f.Egress) > 0 {
		parts = append(parts, "sends only what NetworkPolicy "+strings.Join(f.Egress, ", ")+" allows")
	}
	if len(parts) == 0 {
		parts = []string{"no NetworkPolicy rules over it any more"}
	}
	return fmt.Sprintf("%s, %s after the node heard of it", strings.Join(parts, " and "), f.Took)
}
