package resource

// Larger is, field by field, the larger of two sets of values: what a cgroup is given while what is
// in it goes from one size to the other, so that containers never meet a bound of their Pod that is
// narrower than their own. Fields that only one has are that one's; no limit is larger than any.
func Larger(a, b Values) Values {
	out := b
	out.Shares = larger(a.Shares, b.Shares)
	out.Memory = largerQuota(a.Memory, b.Memory)
	out.Quota = largerQuota(a.Quota, b.Quota)
	out.Pids = largerQuota(a.Pids, b.Pids)
	return out
}

func larger(a, b *uint64) *uint64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// largerQuota compares limits, of which one below zero is none.
func largerQuota(a, b *int64) *int64 {
	switch {
	case a == nil:
		return b
	case b == nil, *a < 0:
		return a
	case *b < 0 || *b > *a:
		return b
	}
	return a
}

// ResetRemovedLimits says explicitly that a limit of the old values that the new ones do not name
// is gone: a cgroup keeps what it is not told.
func ResetRemovedLimits(old, now Values) Values {
	none := int64(-1)
	if old.Memory != nil && now.Memory == nil {
		now.Memory = &none
	}
	if old.Quota != nil && now.Quota == nil {
		now.Quota = &none
	}
	return now
}
