package place

// Rest is for how many rulings nodes that differ too much are not parted again.
const Rest = rest

// Resting is how many partitions wait for that, with the groups they hold all the same.
func (m *Memory) Resting() (partitions, groups int) {
	for _, p := range m.partitions {
		if m.turn < p.rests {
			partitions++
			groups += p.ranks.Groups()
		}
	}
	return partitions, groups
}
