package e2e

import (
	"context"
	"math/rand"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/process"
)

// driver is the driver of local volumes as a process of its own.
type driver struct {
	c       *cluster
	process *process.Process
}

func (d *driver) start() {
	d.c.t.Helper()
	p, err := process.Start(exec.Command(filepath.Join(d.c.Bin, "gantry"), "csi-driver", "--kubeconfig="+d.c.Kubeconfig,
		"--node-name=node-1", "--kubelet-dir="+filepath.Join(d.c.Dir, "kubelet"),
		"--volumes-dir="+filepath.Join(d.c.Dir, "local-storage")))
	if err != nil {
		d.c.t.Fatal(err)
	}
	d.process = p
}

// kill is SIGKILL: of the driver alone.
func (d *driver) kill() {
	if d.process != nil {
		d.process.Kill()
	}
}

// TestADatabaseOutlivesItsDriver runs PostgreSQL on a volume of the local driver, which is a
// process of its own that is killed alone, at random moments: while rows are written, which goes
// on, and again and again while the database's Pod is replaced. What was acknowledged is there
// afterwards.
func TestADatabaseOutlivesItsDriver(t *testing.T) {
	c := newCluster(t, "--local-storage=false")
	d := &driver{c: c}
	t.Cleanup(func() {
		if t.Failed() && d.process != nil {
			t.Log(d.process.Report())
		}
		d.kill()
	})
	c.Start()
	img, err := images.Postgres()
	if err != nil {
		t.Fatal(err)
	}
	c.importImage("docker.io/library/postgres:15", img)
	d.start()
	c.apply(database)
	c.eventually(time.Minute, "the Pod is made", func() (string, bool) {
		out, err := c.try("", "get", "pod", "pg-0")
		return out, err == nil
	})
	c.waitFor("pod/pg-0", "condition=Ready", 2*time.Minute)
	c.kubectl("exec", "pg-0", "--", "psql", "-c", "create table t (id text primary key)")
	w := &writer{c: c, acks: map[string]bool{}}
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewSource(seed))
	t.Logf("seed %d", seed)
	for round := range 3 {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.write(ctx) }()
		written := func(what string) {
			t.Helper()
			enough := w.count() + 5 + random.Intn(20)
			c.eventually(time.Minute, what, func() (string, bool) { return "", w.count() >= enough })
		}
		written("rows are written")
		d.kill()
		written("rows are written without a driver")
		d.start()
		written("rows are written beside a new driver")
		c.kubectl("delete", "pod", "pg-0", "--wait=false")
		d.kill()
		stop()
		<-done
		d.killedUntilReady(random)
		if lost := w.missing("pg-0"); len(lost) > 0 {
			t.Errorf("round %d: of %d acknowledged rows these are lost: %v", round, w.count(), lost)
		}
	}
	t.Logf("%d rows were acknowledged", w.count())
	c.kubectl("delete", "statefulset", "pg")
	c.kubectl("delete", "pvc", "--all")
	c.eventually(time.Minute, "the volumes go", func() (string, bool) {
		out := c.kubectl("get", "pv", "-o", "name")
		return out, strings.TrimSpace(out) == ""
	})
}

// killedUntilReady kills and starts the driver at random moments while the next Pod comes, at most
// five times, and then lets it be.
func (d *driver) killedUntilReady(random *rand.Rand) {
	d.c.t.Helper()
	for range 5 {
		d.start()
		moment := time.After(time.Duration(random.Intn(2000)) * time.Millisecond)
		select {
		case <-moment:
		case <-d.c.t.Context().Done():
		}
		d.kill()
	}
	d.start()
	d.c.eventually(2*time.Minute, "the database is back", func() (string, bool) {
		out, err := d.c.try("", "exec", "pg-0", "--", "psql", "-c", "select 1")
		return out, err == nil
	})
}
