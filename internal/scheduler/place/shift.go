package place

// Shifting is a Tally that sees more of a row than its node and columns. It has no keys, and is asked for one look.
type Shifting interface {
	// Since lists the nodes that may look different after a time, some more than once; false: any may. now is the time to ask with next.
	Since(clock int64) (nodes []string, now int64, known bool)
}

// heard is until when a partition knows what changed beside the nodes.
type heard struct {
	clocks  []int64 // of sums that shift
	pledged int64   // of promises
	owned   []int32 // rows promised to the Pod that was ruled about last
}

// shifted lists the rows that look different to judges with sums though their nodes may have not changed; false when it may be any.
func (p *partition) shifted(c *cycle) (rows []int32, known bool) {
	if p.clocks == nil {
		p.clocks = make([]int64, len(p.sums))
	}
	known = true
	for i, s := range p.sums {
		if s.shifts == nil {
			continue
		}
		nodes, now, told := s.shifts.Since(p.clocks[i])
		p.clocks[i] = now
		known = known && told
		for _, name := range nodes {
			if row, ok := c.World.Index(name); ok {
				rows = append(rows, int32(row))
			}
		}
	}
	return rows, known
}
