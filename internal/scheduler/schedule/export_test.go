package schedule

// RetryInterval is for how many cycles nodes that differ too much are not grouped again.
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
