package finding

import (
	"fmt"
	"testing"
)

// A Pod is changed by making it anew; one that is ending is not, since that would wait for its end.
//
// row: RST-10
func TestAPodThatIsEndingIsNotMadeAnew(t *testing.T) {
	for deleted, want := range map[string]int{"": 1, `, deletionTimestamp: "2026-05-01T12:00:00Z"`: 0,
		`, deletionTimestamp: "2026-05-01T12:00:00Z", finalizers: [example.com/x]`: 1} {
		c := clusterOf(t, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop%s}, spec: `+
			`{containers: [{name: a}]}}`, deleted))
		if got := c.patchCommand(Object{"Pod", "shop", "p"}, "[]"); len(got) != want {
			t.Errorf("%q: got %q, want %d commands", deleted, got, want)
		}
	}
}
