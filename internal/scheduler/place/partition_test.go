package place

import "testing"

// TestPartitionsAreBounded: those not used for longest go while all together take too much or are too many; the one in use stays.
func TestPartitionsAreBounded(t *testing.T) {
	const rows, groups = 1 << 14, 1 << 10
	m := &Memory{turn: 100, partitions: map[parts]*partition{}}
	add := func(used int64, groups int) *class {
		c, p := &class{}, &partition{used: used}
		p.ranks.Reset(rows)
		for range groups {
			p.ranks.Grow()
		}
		m.partitions[parts{class: c}] = p
		return c
	}
	has := func(c *class) bool { return m.partitions[parts{class: c}] != nil }
	each := m.partitions[parts{class: add(100, groups)}].ranks.Bytes()
	clear(m.partitions)
	fit := partitionsBudget / each
	now, old := add(100, groups), add(1, groups)
	for i := range fit - 1 {
		add(int64(i+2), groups)
	}
	m.trimPartitions()
	if len(m.partitions) != fit || has(old) || !has(now) {
		t.Errorf("%d partitions of %d bytes are kept, the oldest among them: %v, that in use: %v", len(m.partitions), each, has(old), has(now))
	}
	clear(m.partitions)
	old = add(1, 0)
	for i := range mostPartitions {
		add(int64(i+2), 0)
	}
	m.trimPartitions()
	if len(m.partitions) != mostPartitions || has(old) {
		t.Errorf("%d partitions are kept, the oldest among them: %v", len(m.partitions), has(old))
	}
	clear(m.partitions)
	now = add(100, 0)
	p := m.partitions[parts{class: now}]
	for p.ranks.Bytes() <= partitionsBudget {
		p.ranks.Grow()
	}
	m.trimPartitions()
	if !has(now) {
		t.Error("the partition of the ruling under way is gone")
	}
}
