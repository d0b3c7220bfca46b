package schedule

import "testing"

// TestNodeGroupsAreBounded: those not used for longest go while all together take too much or are
// too many; the one in use stays.
func TestNodeGroupsAreBounded(t *testing.T) {
	const rows, groups = 1 << 14, 1 << 10
	m := &EquivalenceCache{clock: 100, nodeGroups: map[nodeGroupsKey]*nodeGroups{}}
	add := func(used int64, groups int) *podShape {
		c, p := &podShape{}, &nodeGroups{used: used}
		p.ranks.Reset(rows)
		for range groups {
			p.ranks.AddGroup()
		}
		m.nodeGroups[nodeGroupsKey{shape: c}] = p
		return c
	}
	has := func(c *podShape) bool { return m.nodeGroups[nodeGroupsKey{shape: c}] != nil }
	each := m.nodeGroups[nodeGroupsKey{shape: add(100, groups)}].ranks.Bytes()
	clear(m.nodeGroups)
	fit := nodeGroupsBudget / each
	now, old := add(100, groups), add(1, groups)
	for i := range fit - 1 {
		add(int64(i+2), groups)
	}
	m.evictNodeGroups()
	if len(m.nodeGroups) != fit || has(old) || !has(now) {
		t.Errorf("%d partitions of %d bytes are kept, the oldest among them: %v, that in use: %v", len(m.nodeGroups),
			each, has(old), has(now))
	}
	clear(m.nodeGroups)
	old = add(1, 0)
	for i := range maxNodeGroupings {
		add(int64(i+2), 0)
	}
	m.evictNodeGroups()
	if len(m.nodeGroups) != maxNodeGroupings || has(old) {
		t.Errorf("%d partitions are kept, the oldest among them: %v", len(m.nodeGroups), has(old))
	}
	clear(m.nodeGroups)
	now = add(100, 0)
	p := m.nodeGroups[nodeGroupsKey{shape: now}]
	for p.ranks.Bytes() <= nodeGroupsBudget {
		p.ranks.AddGroup()
	}
	m.evictNodeGroups()
	if !has(now) {
		t.Error("the node groups of the cycle under way are gone")
	}
}
