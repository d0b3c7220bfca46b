package coscheduling

import (
	"regexp"
	"strconv"
)

// What the plugin says of a group; ParseMinimum reads it again.
const (
	assignedText = "%d of %d members of PodGroup %s/%s have a node"
	tooFewText   = "pre-filter pod %v cannot find enough sibling pods, current pods number: %v, minMember of group: %v"

	// NoPodGroup is said of a Pod whose label names a PodGroup that does not exist.
	NoPodGroup = "PodGroup not found"
)

var minimumPattern = regexp.MustCompile(`\d+ of (\d+) members of PodGroup|minMember of group: (\d+)`)

// ParseMinimum is the minMember that the plugin named in a text of its own; false when the text is
// about something else.
func ParseMinimum(text string) (int, bool) {
	m := minimumPattern.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1] + m[2])
	return n, err == nil
}
