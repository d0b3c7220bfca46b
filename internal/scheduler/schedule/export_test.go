package schedule

// RetryInterval is for how many rulings nodes that differ too much are not parted again.
const RetryInterval = retryInterval

// Resting is how many partitions wait for that, with the groups they hold all the same.
func (m *EquivalenceCache) Resting() (partitions, groups int) {
	for _, p := range m.nodeGroups {
		if m.clock < p.retryAt {
			partitions++
			groups += p.ranks.Groups()
		}
	}
	return partitions, groups
}
