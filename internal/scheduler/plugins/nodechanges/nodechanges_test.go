package nodechanges

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A caller gets every change since its last call, or that anything may have changed, however
// long the log has become.
func TestEveryNodeChangeIsReturned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Log
		seen := int64(0)
		var since []string
		all := false
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				l.NoteAll()
				all = true
			case 1:
				nodes, now, known := l.Since(seen)
				if known && (all || !slices.Equal(nodes, since)) {
					t.Fatalf("got %v, want %v, all %v", nodes, since, all)
				}
				if !known && !all && len(since) <= maxNodes/2 {
					t.Fatalf("%d changes were forgotten", len(since))
				}
				seen, since, all = now, nil, false
			case 2:
				for range maxNodes/2 + 1 {
					l.Note("busy")
					since = append(since, "busy")
				}
			default:
				node := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "node")
				l.Note(node)
				since = append(since, node)
			}
		}
	})
}
