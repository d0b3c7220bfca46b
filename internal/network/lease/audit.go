package lease

import (
	"regexp"
	"slices"
)

// Seen is what an audit finds on the machine beside the book.
type Seen struct {
	// Gone tells that a network namespace is not to be seen from here. That is no proof: a runtime in another mount namespace has its own.
	Gone func(netns string) bool
	// Links are the hosts' ends on the bridge.
	Links []string
	// Sandboxes are those the runtime has, true where it lists them as ready; nil: it was not asked.
	Sandboxes map[string]bool
}

// Findings are what is held by nobody.
type Findings struct {
	Leases []Lease  // of sandboxes that are gone
	Links  []string // of no lease
}

// Empty tells that nothing was found.
func (f Findings) Empty() bool { return len(f.Leases) == 0 && len(f.Links) == 0 }

// Patience is in how many audits, one after the other, the runtime must not know a sandbox whose namespace is there: one that is being made is not
// listed yet.
const Patience = 5

// gonePatience is the same for a sandbox whose namespace is not to be seen either.
const gonePatience = 2

// ours is the form of the host's ends that the CNI plugin makes.
var ours = regexp.MustCompile(`^veth[0-9a-f]{10}$`)

// Audit finds leases and links that nobody holds. A lease is written before its link is made and dropped after the link is gone, so a link without a
// lease has no owner. Missed counts for each attachment the audits in which the runtime did not know its sandbox; it is returned for the next one.
// What the runtime lists as ready is kept, whatever is seen of its namespace, and where that is not seen, no namespace's absence counts.
func (b *Book) Audit(s Seen, missed map[string]int) (Findings, map[string]int) {
	var f Findings
	next, links := map[string]int{}, map[string]bool{}
	blind := slices.ContainsFunc(b.Leases, func(l Lease) bool { return s.Sandboxes[l.Container] && s.Gone(l.Netns) })
	for _, l := range b.Leases {
		links[l.Link] = true
		key := l.Container + "/" + l.Interface
		ready, listed := s.Sandboxes[l.Container]
		gone, patience := !blind && s.Gone(l.Netns), Patience
		if gone {
			patience = gonePatience
		}
		switch {
		case s.Sandboxes == nil:
			next[key] = missed[key] // not asked: what was counted stays
		case ready || listed && !gone:
		case listed || missed[key]+1 >= patience:
			f.Leases = append(f.Leases, l)
		default:
			next[key] = missed[key] + 1
		}
	}
	for _, name := range s.Links {
		if ours.MatchString(name) && !links[name] {
			f.Links = append(f.Links, name)
		}
	}
	slices.Sort(f.Links)
	return f, next
}
