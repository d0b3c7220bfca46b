package journal_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-project/gantry/internal/journal"
)

func TestEveryFactRoundTrips(t *testing.T) {
	for _, f := range journal.Facts {
		in := journal.Entry{Seq: 7, At: time.Unix(1, 0).UTC(), Ref: journal.Ref{Name: "x"}, By: "kubelet", Fact: f}
		raw, err := json.Marshal(in)
		if err != nil {
			t.Fatalf("%T: got error %v, want none", f, err)
		}
		var out journal.Entry
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatalf("%T: got error %v, want none", f, err)
		}
		if diff := cmp.Diff(in, out); diff != "" {
			t.Errorf("%T: the two differ (-want +got):\n%s", f, diff)
		}
	}
}

func TestUnknownFactRoundTrips(t *testing.T) {
	var e journal.Entry
	if err := json.Unmarshal(
		[]byte(`{"seq":1,"at":"2026-01-01T00:00:00Z","ref":{"name":"x"},"by":"y","kind":"FromTheFuture","line":"it `+
			`flew","fact":{"a":1}}`), &e); err != nil {
		t.Fatal(err)
	}
	if e.Fact.Line() != "it flew" {
		t.Fatalf("line lost: %q, want \"it flew\"", e.Fact.Line())
	}
}
