package faults

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/test/binaries"
	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/instance"
)

var (
	schedules = flag.Int("schedules", 6, "how many random schedules are played")
	seed      = flag.Uint64("seed", 0,
		"of the first schedule; 0 takes one from the clock. The next schedules have the next seeds")
	pods = flag.Int("pods", 8, "how many Pods come and go")
)

const busybox = "docker.io/library/busybox:1.28"

// Whichever process dies in the middle of whatever: acknowledged writes stay, containers run on
// untouched, every Pod that is to end ends, and of those that ended no sandbox, container, mount,
// cgroup, link or address is left.
//
// row: KSL-08
// row: KSL-12
// row: TRM-10
// row: TRM-12
// row: OPS-17
func TestKilledInTheMiddle(t *testing.T) {
	bin := binaries.Gantry(t)
	if dir := os.Getenv("GANTRY_BIN"); dir != "" {
		bin = filepath.Join(dir, "gantry")
	}
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano() % 1_000_000)
	}
	t.Logf("seeds %d to %d", first, first+uint64(*schedules)-1)
	w := start(t, bin)
	for i := range *schedules {
		s := first + uint64(i)
		w.runSchedule(s, rand.New(rand.NewPCG(s, s)))
		if t.Failed() {
			t.Fatalf("the schedule of seed %d failed: go test ./test/faults -schedules 1 -seed %d\n%s", s, s,
				w.transcript())
		}
	}
	w.end()
}

// start runs server, scheduler, controllers and kubelet as processes of their own, with Pods that
// nobody touches.
func start(t *testing.T, bin string) *fixture {
	t.Helper()
	i, err := instance.New(instance.Options{Binary: bin, BinDir: filepath.Dir(bin), NodeIP: "127.0.0.1", Number: 71,
		Split: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Remove(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w := &fixture{t: t, i: i, stay: map[string]string{}, startedAt: time.Now()}
	w.must(i.Start())
	w.must(i.WaitAPI(ctx))
	w.must(i.StartRoles())
	cfg, err := i.Admin(ctx)
	w.must(err)
	w.client, err = kubernetes.NewForConfig(cfg)
	w.must(err)
	archive := filepath.Join(t.TempDir(), "busybox.tar")
	w.must(images.Archive(archive, images.Select(images.Standard(), busybox)))
	w.must(instance.Poll(ctx, 100*time.Millisecond, func() error { return i.Import(ctx, archive) }))
	w.runtime(ctx)
	w.settle(ctx)
	return w
}
