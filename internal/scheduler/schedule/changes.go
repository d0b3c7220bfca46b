package schedule

// ChangeSource is an Aggregate that sees more of a row than its node and columns. It has no keys,
// and is asked for one look.
type ChangeSource interface {
	// Since lists the nodes that may look different after a time, some more than once; false: any
	// may. now is the time to ask with next.
	Since(clock int64) (nodes []string, now int64, known bool)
}

// changeClocks is until when the groups know what changed beside the nodes.
type changeClocks struct {
	clocks           []int64 // of sums that shift
	nominations      int64   // of nominations
	ownNominatedRows []int32 // rows nominated to the Pod that was scheduled last
}

// rowsWithChangedAggregates lists the rows whose state changed for aggregating plugins though their
// nodes may have not changed; false when it may be any.
func (p *nodeGroups) rowsWithChangedAggregates(c *cycle) (rows []int32, known bool) {
	if p.clocks == nil {
		p.clocks = make([]int64, len(p.aggregates))
	}
	known = true
	for i, s := range p.aggregates {
		if s.changes == nil {
			continue
		}
		nodes, now, complete := s.changes.Since(p.clocks[i])
		p.clocks[i] = now
		known = known && complete
		for _, name := range nodes {
			if row, ok := c.Snapshot.Index(name); ok {
				rows = append(rows, int32(row))
			}
		}
	}
	return rows, known
}
