package journal

import (
	"fmt"
	"strings"
	"time"

	"github.com/gantry-project/gantry/internal/reason"
)

// Queued says which queue of the scheduler a Pod stands in and what put it there.
type Queued struct {
	Queue   string    `json:"queue"`             // active, backoff, unschedulable, gated
	Cause   string    `json:"cause"`             // the event that moved it, as upstream names it (PodAdd, NodeAdd, …)
	Attempt int       `json:"attempt,omitempty"` // scheduling attempts so far
	Until   time.Time `json:"until,omitzero"`    // end of the back-off
	By      string    `json:"by,omitempty"`      // plugin that found the event helpful, or whose gate is closed
	Object  string    `json:"object,omitempty"`  // what the event was about: node/NAME, pod/NAMESPACE/NAME
	Ignored bool      `json:"ignored,omitempty"` // the Pod stays: the plugin (By) does not expect the event to help
}

// Line prints the place in the queue.
func (f Queued) Line() string {
	cause := f.Cause
	if f.Object != "" {
		cause += " of " + f.Object
	}
	if f.By != "" {
		cause += ", by " + f.By
	}
	if f.Ignored {
		return fmt.Sprintf("stays %s: %s expects no help from %s", f.Queue, f.By,
			strings.TrimSuffix(cause, ", by "+f.By))
	}
	s := fmt.Sprintf("queued: %s (%s)", f.Queue, cause)
	if f.Attempt > 0 {
		s += fmt.Sprintf(", %d attempts so far", f.Attempt)
	}
	return s
}

// NodeRefusal is one node's first refusal of a Pod.
type NodeRefusal struct {
	Node      string      `json:"node"`
	Plugin    string      `json:"plugin"`
	Code      string      `json:"code"`             // Unschedulable, UnschedulableAndUnresolvable, Error, …
	Reason    reason.Code `json:"reason,omitempty"` // codes of older journals are read by their new names
	Messages  []string    `json:"messages"`         // upstream's texts, as counted in FailedScheduling
	Detail    string      `json:"detail,omitempty"` // the numbers behind it: "asks cpu 2, 1.4 left of 8"
	Fix       string      `json:"fix,omitempty"`    // smallest change that lifts this refusal, if the plugin knows one
	Shortages []Shortage  `json:"short,omitempty"`  // resources that are missing
}

// CountedRefusal sums up nodes that gave the same refusal and are not listed one by one.
type CountedRefusal struct {
	Plugin   string   `json:"plugin"`
	Code     string   `json:"code"`
	Messages []string `json:"messages"`
	Nodes    int      `json:"nodes"`
}

// Shortage is a shortfall of one resource, in the resource's base unit (milli for cpu, bytes for
// memory).
type Shortage struct {
	Resource  string `json:"resource"`
	Requested int64  `json:"asked"`
	Used      int64  `json:"used"`
	Available int64  `json:"available"` // allocatable of the node
}

// PluginScore is one plugin's score of one node.
type PluginScore struct {
	Plugin   string `json:"plugin"`
	Raw      int64  `json:"raw"`
	Norm     int64  `json:"norm"`
	Weight   int64  `json:"weight"`
	Weighted int64  `json:"weighted"`
}

// NodeScore is one feasible node's total and its parts.
type NodeScore struct {
	Node  string        `json:"node"`
	Total int64         `json:"total"`
	Parts []PluginScore `json:"parts,omitempty"`
}

// Ruled is the outcome of one scheduling attempt: every node's refusal or score.
type Ruled struct {
	Attempt  int              `json:"attempt"`
	Profile  string           `json:"profile"`
	Nodes    int              `json:"nodes"` // nodes in the snapshot
	Sample                    // of the nodes
	Feasible int              `json:"feasible"`           // nodes that passed every filter
	Winner   string           `json:"winner,omitempty"`   // empty when no node fits
	RunnerUp string           `json:"runnerUp,omitempty"` // second best
	Ties     int              `json:"ties,omitempty"`     // nodes that shared the top score
	Message  string           `json:"message,omitempty"`  // text of the FailedScheduling event
	By       string           `json:"by,omitempty"`       // plugin that ended the attempt before nodes were filtered
	Refusals []NodeRefusal    `json:"refusals,omitempty"`
	Counted  []CountedRefusal `json:"counted,omitempty"` // refusals of nodes beyond those listed
	Scores   []NodeScore      `json:"scores,omitempty"`
	Points   map[string]Took  `json:"points,omitempty"` // time per extension point
	Took     Took             `json:"took"`
}

// Sample is which nodes were looked at: with a percentage of nodes to score the search ends once
// enough fit.
type Sample struct {
	Visited int `json:"visited"` // nodes evaluated
	// nodes that were not, as enough others fit before their turn came; a better one may be among
	// them
	Left    int      `json:"left,omitempty"`
	LeftOut []string `json:"leftOut,omitempty"` // the first of these by name
}

// Line prints winner or refusal.
func (f Ruled) Line() string {
	if f.Winner == "" {
		return fmt.Sprintf("attempt %d: %s", f.Attempt, f.Message)
	}
	s := fmt.Sprintf("attempt %d: %s chosen, %d of %d nodes fit", f.Attempt, f.Winner, max(f.Feasible, len(f.Scores)),
		f.Nodes)
	for _, n := range f.Scores {
		if n.Node == f.Winner && len(n.Parts) > 0 { // a single node that fits is not scored
			parts := make([]string, 0, len(n.Parts))
			for _, p := range n.Parts {
				parts = append(parts, fmt.Sprintf("%s=%d", p.Plugin, p.Weighted))
			}
			s += fmt.Sprintf(" (score %d: %s)", n.Total, strings.Join(parts, " "))
		}
	}
	return s
}

// Bound says that the API server took the binding.
type Bound struct {
	Node string `json:"node"`
	Next string `json:"next,omitempty"` // runner-up
	Lead int64  `json:"lead,omitempty"` // points ahead of it
	Took Took   `json:"took"`           // from queue to acknowledged binding
}

// Line prints the binding.
func (f Bound) Line() string {
	if f.Next == "" {
		return "bound to " + f.Node
	}
	return fmt.Sprintf("bound to %s, %d ahead of %s", f.Node, f.Lead, f.Next)
}

// BindFailed says that a binding cycle was rolled back.
type BindFailed struct {
	Node   string `json:"node"`
	Point  string `json:"point"` // Reserve, Permit, PreBind, Bind
	Plugin string `json:"plugin,omitempty"`
	Error  string `json:"error"`
}

// Line prints the failure.
func (f BindFailed) Line() string {
	return fmt.Sprintf("binding to %s failed in %s: %s", f.Node, f.Point, f.Error)
}

// Preempting says which Pods were asked to leave for this one.
type Preempting struct {
	Node    string   `json:"node"`
	Victims []string `json:"victims"` // namespace/name
}

// Line prints node and victims.
func (f Preempting) Line() string {
	return fmt.Sprintf("nominated to %s, preempting %s", f.Node, strings.Join(f.Victims, ", "))
}

// Preempted says of a Pod that the scheduler made it leave for another, and why.
type Preempted struct {
	By       string `json:"by"`              // namespace/name of the Pod it left for
	Class    string `json:"class,omitempty"` // priority class of that Pod
	Priority int32  `json:"priority"`        // of that Pod
	Own      int32  `json:"own"`             // priority of this Pod
	Node     string `json:"node"`
	// nodes that would have become free enough by preemption and were compared
	Candidates int              `json:"candidates"`
	Victims    int              `json:"victims"`           // Pods that had to leave, this one included
	Shortages  []Shortage       `json:"short,omitempty"`   // what the other Pod lacked on the node
	Budgets    []ViolatedBudget `json:"budgets,omitempty"` // PodDisruptionBudgets that allowed no more disruptions
}

// ViolatedBudget is a PodDisruptionBudget that preemption did not keep: it keeps budgets only where
// another choice is left.
type ViolatedBudget struct {
	Name    string `json:"name"`
	Allowed int32  `json:"allowed"` // status.disruptionsAllowed at that time
}

// Line prints who came first, and why.
func (f Preempted) Line() string {
	s := fmt.Sprintf("preempted on %s (priority %d) for pod %s (priority %d)", f.Node, f.Own, f.By, f.Priority)
	for _, b := range f.Budgets {
		s += fmt.Sprintf(", against budget %s (%d disruptions allowed)", b.Name, b.Allowed)
	}
	return s
}
