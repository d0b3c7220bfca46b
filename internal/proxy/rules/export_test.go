package rules

// OwnerCount is how many owners b keeps: none may stay behind without state.
func OwnerCount(b *DesiredState) int { return len(b.byOwner) }
