package journal

import (
	"fmt"
	"strings"
)

// TrafficBegins says that a node's rules lead a Service's traffic to the Pod, too.
type TrafficBegins struct {
	Service  string `json:"service"`  // NAMESPACE/NAME
	Endpoint string `json:"endpoint"` // address
	Took     Took   `json:"took"`     // from hearing of it to the rule in the kernel
}

// Line prints Service and time.
func (f TrafficBegins) Line() string {
	return fmt.Sprintf("gets traffic of Service %s at %s, %s after the node heard of it", f.Service, f.Endpoint, f.Took)
}

// TrafficEnds says that a node's rules lead no new connection of a Service to the Pod any more.
type TrafficEnds struct {
	Service  string `json:"service"`  // NAMESPACE/NAME
	Endpoint string `json:"endpoint"` // address
	Took     Took   `json:"took"`     // from hearing of it to the rule in the kernel
}

// Line prints Service and time.
func (f TrafficEnds) Line() string {
	return fmt.Sprintf("gets no more traffic of Service %s at %s, %s after the node heard of it", f.Service, f.Endpoint,
		f.Took)
}

// RulesChanged says of a Service that its rules on a node have other endpoints now.
type RulesChanged struct {
	Endpoints int  `json:"endpoints"` // how many there are now
	Added     int  `json:"came,omitempty"`
	Removed   int  `json:"left,omitempty"`
	Took      Took `json:"took"` // from hearing of it to the rule in the kernel
}

// Line prints the numbers.
func (f RulesChanged) Line() string {
	return fmt.Sprintf("rules lead to %d endpoints (%d came, %d left), %s after the node heard of it", f.Endpoints,
		f.Added, f.Removed, f.Took)
}

// PoliciesChanged says that a node's rules hold a Pod to other NetworkPolicies now.
type PoliciesChanged struct {
	// names of the policies that rule over what it receives; none: nothing does
	Ingress []string `json:"ingress,omitempty"`
	Egress  []string `json:"egress,omitempty"` // and over what it sends
	Took    Took     `json:"took"`             // from hearing of it to the rule in the kernel
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
