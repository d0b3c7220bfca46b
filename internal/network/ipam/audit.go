package ipam

import (
	"regexp"
	"slices"
)

// HostState is what an audit finds on the machine beside the book.
type HostState struct {
	// NetnsGone tells that a network namespace is not to be seen from here. That is no proof: a
	// runtime in another mount namespace has its own.
	NetnsGone func(netns string) bool
	// Links are the hosts' ends on the bridge.
	Links []string
	// Sandboxes are those the runtime has, true where it lists them as ready; nil: it was not
	// asked.
	Sandboxes map[string]bool
}

// Findings are what is held by nobody.
type Findings struct {
	Leases []Lease  // of sandboxes that are gone
	Links  []string // of no lease
}

// Empty tells that nothing was found.
func (f Findings) Empty() bool { return len(f.Leases) == 0 && len(f.Links) == 0 }

// MissedAudits is in how many audits, one after the other, the runtime must not know a sandbox
// whose namespace is there: one that is being made is not listed yet.
const MissedAudits = 5

// goneMissedAudits is the same for a sandbox whose namespace is not to be seen either.
const goneMissedAudits = 2

// vethPattern is the form of the host's ends that the CNI plugin makes.
var vethPattern = regexp.MustCompile(`^veth[0-9a-f]{10}$`)

// Audit finds leases and links that nobody holds. A lease is written before its link is made and
// dropped after the link is gone, so a link without a lease has no owner. Missed counts for each
// attachment the audits in which the runtime did not know its sandbox; it is returned for the next
// one. What the runtime lists as ready is kept, whatever is seen of its namespace, and where that
// is not seen, no namespace's absence counts.
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
			next[key] = missed[key] // not asked: what was counted stays
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
