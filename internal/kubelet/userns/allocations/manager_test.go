package allocations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/userns"
)

func pool(t *testing.T, pods int32) userns.Pool {
	t.Helper()
	p, err := userns.Default(userns.Config{MaxPods: pods})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func nothing(context.Context, types.UID) (userns.Range, bool, error) {
	return userns.Range{}, false, nil
}

// row: UNS-02
func TestConcurrentAllocationsAreDisjointAndStable(t *testing.T) {
	root := t.TempDir()
	l := New(root, pool(t, 20), nothing)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := l.GetOrCreate(t.Context(), types.UID(fmt.Sprint("p", i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	before, err := l.Allocated()
	if err != nil || len(before) != 20 {
		t.Fatalf("got %v, %v, want no error and 20 in before", before, err)
	}
	firsts := map[uint32]bool{}
	for _, r := range before {
		firsts[r.First] = true
	}
	if len(firsts) != 20 {
		t.Errorf("ranges are shared: %v", before)
	}
	if _, err := l.GetOrCreate(t.Context(), "p20"); err == nil {
		t.Error("a 21st Pod got a range of 20")
	}
	again := New(root, pool(t, 20), nothing) // the kubelet starts anew
	for uid, want := range before {
		if r, err := again.GetOrCreate(t.Context(), uid); err != nil || r != want {
			t.Errorf("%s: %v %v, had %v", uid, r, err, want)
		}
	}
	if err := os.RemoveAll(filepath.Join(root, "pods", "p7")); err != nil { // the Pod is released
		t.Fatal(err)
	}
	if r, err := again.GetOrCreate(t.Context(), "p20"); err != nil || r != before["p7"] {
		t.Errorf("%v %v, want the range that came free, %v", r, err, before["p7"])
	}
}

// Pods that come at once have ranges of their own, however close together they come.
//
// row: UNS-02
func TestAllocationsAtOnceAreDisjoint(t *testing.T) {
	const pods, rounds = 8, 200
	for range rounds {
		l, begin := New(t.TempDir(), pool(t, pods), nothing), make(chan struct{})
		var wg sync.WaitGroup
		for i := range pods {
			wg.Go(func() {
				<-begin
				if _, err := l.GetOrCreate(t.Context(), types.UID(fmt.Sprint("p", i))); err != nil {
					t.Error(err)
				}
			})
		}
		close(begin)
		wg.Wait()
		have, err := l.Allocated()
		firsts := map[uint32]bool{}
		for _, r := range have {
			firsts[r.First] = true
		}
		if err != nil || len(firsts) != pods {
			t.Fatalf("ranges are shared: got %v, %v, want %d ranges", have, err, pods)
		}
	}
}

func TestDamagedFileIsRepairedFromRuntime(t *testing.T) {
	root := t.TempDir()
	damage := func(uid string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(root, "pods", uid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "pods", uid, "userns"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	damage("runs")
	damage("sleeps")
	has := userns.Range{First: 65536, Length: 65536}
	l := New(root, pool(t, 3), func(_ context.Context, uid types.UID) (userns.Range, bool, error) {
		return has, uid == "runs", nil
	})
	other, err := l.GetOrCreate(t.Context(), "new") // while both are damaged
	if err != nil || other == has {
		t.Errorf("%v %v: the range of a running Pod was given away", other, err)
	}
	if r, err := l.GetOrCreate(t.Context(), "runs"); err != nil || r != has {
		t.Errorf("got %v %v, want no error and r %v", r, err, has)
	}
	if r, err := l.GetOrCreate(t.Context(), "sleeps"); err != nil || r == has || r == other {
		t.Errorf("got %v %v, want no error, r other than %v and r other than %v", r, err, has, other)
	}
	damage("runs")
	noRuntime := New(root, pool(t, 3), func(context.Context, types.UID) (userns.Range, bool, error) {
		return userns.Range{}, false, errors.New("no runtime")
	})
	if _, err := noRuntime.GetOrCreate(t.Context(), "runs"); err == nil {
		t.Error("a range was given while nobody knows which is taken")
	}
}

// row: UNS-10
func TestPoolOfSubordinateIDs(t *testing.T) {
	w := userns.Config{MaxPods: 110}
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	there := func(string) error { return nil }
	if p, err := poolOf(t.Context(), w, there); err != nil || p.First != 65536 {
		t.Errorf("without getsubids: %+v %v", p, err)
	}
	script := "#!/bin/sh\n[ \"$1\" = -g ] && shift\n[ \"$1\" = kubelet ] && echo \"0: kubelet 1310720 7208960\"\n"
	if err := os.WriteFile(filepath.Join(bin, "getsubids"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if p, err := poolOf(t.Context(), w, there); err != nil || p.First != 1310720 || p.Length != 7208960 {
		t.Errorf("with getsubids: %+v %v", p, err)
	}
	absent := func(name string) error { return user.UnknownUserError(name) }
	if p, err := poolOf(t.Context(), w, absent); err != nil || p.First != 65536 {
		t.Errorf("without the user: %+v %v", p, err)
	}
	if err := os.WriteFile(filepath.Join(bin, "getsubids"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := poolOf(t.Context(), w, there); err == nil {
		t.Error("getsubids failed, and its ids were taken")
	}
}

// Subordinate ids that break a rule end the start, with the rule in the error: the node does not
// go on with other ids.
//
// row: UNS-11
// row: UNS-12
// row: UNS-13
// row: UNS-14
// row: UNS-15
func TestSubordinateIDsThatBreakARuleEndTheStart(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	there := func(string) error { return nil }
	for _, c := range []struct{ name, uids, gids, says string }{
		{"first id off the raster", "0: kubelet 70000 7208960", "", "ID 70000 is not a multiple of 65536"},
		{"first id 0", "0: kubelet 0 7208960", "", "ID 0 must be greater or equal to 65536"},
		{"count off the raster", "0: kubelet 65536 70000", "", "length 70000 is not a multiple of 65536"},
		{"too few", "0: kubelet 65536 65536", "", "7208960 ids are needed"},
		{"groups differ", "0: kubelet 65536 7208960", "0: kubelet 131072 7208960", "mismatched subuids and subgids"},
		{"two lines", "0: kubelet 65536 7208960\n1: kubelet 10000000 65536", "", "it must contain only one line"},
	} {
		script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = -g ]; then echo '%s'; else echo '%s'; fi\n",
			cmp.Or(c.gids, c.uids), c.uids)
		if err := os.WriteFile(filepath.Join(bin, "getsubids"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		p, err := poolOf(t.Context(), userns.Config{MaxPods: 110}, there)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: the start goes on with %+v, error %v; want an error with %q", c.name, p, err, c.says)
		}
	}
}
