package coscheduling

import (
	"regexp"
	"strconv"
)

// What the plugin says of a group; Minimum reads it again.
const (
	standing = "%d of %d members of PodGroup %s/%s have a node"
	tooFew   = "pre-filter pod %v cannot find enough sibling pods, current pods number: %v, minMember of group: %v"

	// NoGroup is said of a Pod whose label names a PodGroup that does not exist.
	NoGroup = "PodGroup not found"
)

var minimum = regexp.MustCompile(`\d+ of (\d+) members of PodGroup|minMember of group: (\d+)`)

// Minimum is the minMember that the plugin named in a text of its own; false when the text is about something else.
func Minimum(text string) (int, bool) {
	m := minimum.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1] + m[2])
	return n, err == nil
}
