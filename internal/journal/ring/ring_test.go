package ring

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-project/gantry/internal/journal"
)

func open(t *testing.T, o Options) *Ring {
	t.Helper()
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func lines(entries []journal.Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Fact.Line())
	}
	return out
}

func TestReadSeesWhatWasPut(t *testing.T) {
	r := open(t, Options{})
	web, db := journal.Ref{Namespace: "d", Name: "web", UID: "1"}, journal.Ref{Namespace: "d", Name: "db"}
	s := r.SinkFor("kubelet", "n1")
	s.Put(web, journal.Accepted{Source: "api"})
	s.Put(db, journal.Accepted{Source: "file"})
	s.Put(web, journal.Bound{Node: "n1"})
	got := r.Read(journal.Query{Name: "web"})
	if diff := cmp.Diff([]string{"received by the kubelet from source api", "bound to n1"}, lines(got)); diff != "" {
		t.Fatalf("the two differ (-want +got):\n%s", diff)
	}
	if got[0].By != "kubelet" || got[0].Node != "n1" || got[0].At.IsZero() || got[1].Seq <= got[0].Seq {
		t.Fatalf("circumstances lost: %+v", got)
	}
}

func TestSurvivesRestartAndDamage(t *testing.T) {
	dir := t.TempDir()
	ref := journal.Ref{Namespace: "d", Name: "web"}
	first := open(t, Options{Dir: dir})
	first.SinkFor("a", "").Put(ref, journal.Bound{Node: "n1"})
	first.Read(journal.Query{}) // written through
	// No Close: the process was killed, in the middle of a line.
	f, err := os.OpenFile(filepath.Join(dir, "current.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, `{"seq":9,"kind":"Bo`)
	f.Close()

	second := open(t, Options{Dir: dir})
	second.SinkFor("a", "").Put(ref, journal.Bound{Node: "n2"})
	if diff := cmp.Diff([]string{"bound to n1", "bound to n2"}, lines(second.Read(journal.Query{Name: "web"}))); diff !=
		"" {
		t.Fatalf("the two differ (-want +got):\n%s", diff)
	}
	if s := second.Stats(); s.Damaged != 1 {
		t.Fatalf("want 1 damaged line, have %+v", s)
	}
	third := open(t, Options{Dir: dir})
	if n := len(third.Read(journal.Query{Name: "web"})); n != 2 {
		t.Fatalf("entry after the damage lost: %d, want 2", n)
	}
}

func TestBoundHoldsInMemoryAndOnDisk(t *testing.T) {
	dir, limit := t.TempDir(), 64<<10
	r := open(t, Options{Dir: dir, Bytes: limit})
	s := r.SinkFor("a", "")
	for i := range 5000 {
		s.Put(journal.Ref{Name: fmt.Sprint(i)}, journal.Bound{Node: "n"})
	}
	st := r.Stats()
	if st.Bytes > limit || st.Entries == 0 {
		t.Fatalf("bound broken: got %+v, want Bytes at most %v and Entries other than 0", st, limit)
	}
	if got := r.Read(journal.Query{Name: "4999"}); len(got) != 1 {
		t.Fatalf("newest entry forgotten: got %d, want 1", len(got))
	}
}

func TestConcurrentWriters(t *testing.T) {
	r := open(t, Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				r.SinkFor("s", "").Put(journal.Ref{Name: fmt.Sprint(i)}, journal.Bound{Node: "n"})
			}
		})
	}
	wg.Wait()
	if n := len(r.Read(journal.Query{})); n != 1600 {
		t.Fatalf("want 1600 entries, have %d", n)
	}
}
