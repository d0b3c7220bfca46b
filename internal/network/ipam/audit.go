package ipam

import (
	"regexp"
	"slices"
)

// HostState is what an audit compares the leases with.
type HostState struct {
	// NetnsGone reports that a network namespace is not visible from here. That proves nothing: a
	// runtime in another mount namespace has its own.
	NetnsGone func(netns string) bool
	// Links are the interfaces on the bridge.
	Links []string
	// Sandboxes are those the runtime lists, true if ready; nil: the runtime was not asked.
	Sandboxes map[string]bool
}

// Findings are leaked leases and links.
type Findings struct {
	Leases []Lease  // of sandboxes that are gone
	Links  []string // without lease
}

// Empty reports whether nothing is leaked.
func (f Findings) Empty() bool { return len(f.Leases) == 0 && len(f.Links) == 0 }

// MissedAudits is how many audits in a row must miss a sandbox whose namespace exists before its
// lease counts as leaked: a sandbox that is being created is not listed yet.
const MissedAudits = 5

// goneMissedAudits is the same for a sandbox whose namespace is not visible either.
const goneMissedAudits = 2

// vethPattern matches the host's veth ends that the CNI plugin makes.
var vethPattern = regexp.MustCompile(`^veth[0-9a-f]{10}$`)

// Audit finds leaked leases and links. A lease is written before its link is made and removed after
// the link is gone, so a link without lease is leaked. missed counts, per attachment, the audits in
// which the runtime did not list its sandbox; the caller passes the returned map to the next audit.
// A sandbox that the runtime lists as ready keeps its lease; if the namespace of such a one is not
// visible, missing namespaces prove nothing and are ignored.
func (b *Allocations) Audit(s HostState, missed map[string]int) (Findings, map[string]int) {
	var f Findings
	next, links := map[string]int{}, map[string]bool{}
	blind := slices.ContainsFunc(b.Leases,
		func(l Lease) bool { return s.Sandboxes[l.Container] && s.NetnsGone(l.Netns) })
	for _, l := range b.Leases {
		links[l.Link] = true
		key := l.Container + "/" + l.Interface
		ready, listed := s.Sandboxes[l.Container]
		missing, missedAudits := !blind && s.NetnsGone(l.Netns), MissedAudits
		if missing {
			missedAudits = goneMissedAudits
		}
		switch {
		case s.Sandboxes == nil:
			next[key] = missed[key] // not asked: counts stay
		case ready || listed && !missing:
		case listed || missed[key]+1 >= missedAudits:
			f.Leases = append(f.Leases, l)
		default:
			next[key] = missed[key] + 1
		}
	}
	for _, name := range s.Links {
		if vethPattern.MatchString(name) && !links[name] {
			f.Links = append(f.Links, name)
		}
	}
	slices.Sort(f.Links)
	return f, next
}
