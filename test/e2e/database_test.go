package e2e

import (
	"bufio"
	"context"
	"fmt"
	"math/rand"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-project/gantry/test/images"
)

const database = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: pg}
spec:
  serviceName: pg
  selector: {matchLabels: {app: pg}}
  template:
    metadata: {labels: {app: pg}}
    spec:
      terminationGracePeriodSeconds: 20
      securityContext: {runAsUser: 65534, runAsGroup: 65534, fsGroup: 65534, fsGroupChangePolicy: OnRootMismatch}
      containers:
      - name: pg
        image: docker.io/library/postgres:15
        volumeMounts: [{name: data, mountPath: /data}]
        readinessProbe: {exec: {command: [psql, -c, "select 1"]}, periodSeconds: 1}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 512Mi}}}
`

const copiedDatabase = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: copy}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 512Mi}}
  dataSource: {kind: PersistentVolumeClaim, name: data-pg-0}
---
apiVersion: v1
kind: Pod
metadata: {name: copy}
spec:
  securityContext: {runAsUser: 65534, runAsGroup: 65534, fsGroup: 65534, fsGroupChangePolicy: OnRootMismatch}
  volumes: [{name: data, persistentVolumeClaim: {claimName: copy}}]
  containers:
  - name: pg
    image: docker.io/library/postgres:15
    volumeMounts: [{name: data, mountPath: /data}]
    readinessProbe: {exec: {command: [psql, -c, "select 1"]}, periodSeconds: 1}
`

// writer writes rows into the database and keeps those that were acknowledged.
type writer struct {
	c    *cluster
	mu   sync.Mutex
	acks map[string]bool
	runs int
}

// write writes rows, one transaction each, until the connection breaks or ctx ends.
func (w *writer) write(ctx context.Context) {
	w.mu.Lock()
	w.runs++
	run := w.runs
	w.mu.Unlock()
	script := fmt.Sprintf("i=0; while i=$((i+1)); do psql -q -c \"insert into t values ('%d-$i')\" && echo %d-$i || "+
		"exit 1; done", run, run)
	cmd := exec.CommandContext(ctx, filepath.Join(w.c.Bin, "gantry"), "kubectl", "--kubeconfig", w.c.Kubeconfig,
		"exec", "pg-0", "--", "sh", "-c", script)
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		w.mu.Lock()
		w.acks[lines.Text()] = true
		w.mu.Unlock()
	}
	_ = cmd.Wait() // killed, with the container or by ctx
}

func (w *writer) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acks)
}

// missing are the acknowledged rows that the database in a Pod does not have.
func (w *writer) missing(pod string) (out []string) {
	has := map[string]bool{}
	for row := range strings.FieldsSeq(w.c.kubectl("exec", pod, "--", "psql", "-At", "-c", "select id from t")) {
		has[row] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for row := range w.acks {
		if !has[row] {
			out = append(out, row)
		}
	}
	return out
}

// drained drains the node: the Pod that comes in place of the evicted one waits, because its volume
// is here, until the node is there for it again.
func (c *cluster) drained(ready func()) {
	c.t.Helper()
	uid := func() string {
		out, _ := c.try("", "get", "pod", "pg-0", "-o", "jsonpath={.metadata.uid} {.status.conditions[*].reason}")
		return out
	}
	before, _, _ := strings.Cut(uid(), " ")
	c.kubectl("drain", "node-1", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=2m")
	c.eventually(time.Minute, "another Pod waits for the node", func() (string, bool) {
		out := uid()
		return out, !strings.HasPrefix(out, before) && strings.Contains(out, "Unschedulable")
	})
	c.kubectl("uncordon", "node-1")
	ready()
}

// TestADatabaseLosesNothing runs PostgreSQL on a volume of the local driver and kills, at random
// moments between two writes, Gantry with the driver in it, the database, and its Pod, and drains
// its node: what was acknowledged is there afterwards, and in a copy of the volume that was made
// while it was written.
func TestADatabaseLosesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.Start()
	img, err := images.Postgres()
	if err != nil {
		t.Fatal(err)
	}
	c.importImage("docker.io/library/postgres:15", img)
	c.apply(database)
	ready := func() { t.Helper(); c.waitFor("pod/pg-0", "condition=Ready", 2*time.Minute) }
	c.eventually(time.Minute, "the Pod is made", func() (string, bool) {
		out, err := c.try("", "get", "pod", "pg-0")
		return out, err == nil
	})
	ready()
	c.kubectl("exec", "pg-0", "--", "psql", "-c", "create table t (id text primary key)")
	w := &writer{c: c, acks: map[string]bool{}}
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewSource(seed))
	t.Logf("seed %d", seed)
	kills := []struct {
		name string
		do   func()
	}{
		{"Gantry", func() { c.Kill(); c.Start() }},
		{"the database", func() { _, _ = c.try("", "exec", "pg-0", "--", "sh", "-c", "kill -9 -1") }},
		{"the Pod", func() { c.kubectl("delete", "pod", "pg-0", "--force", "--grace-period=0") }},
		{"Gantry again", func() { c.Kill(); c.Start() }},
		{"the node, which is drained", func() { c.drained(ready) }},
	}
	for _, kill := range kills {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		before := w.count()
		go func() { defer close(done); w.write(ctx) }()
		enough := before + 5 + random.Intn(20)
		c.eventually(time.Minute, "rows are written", func() (string, bool) { return "", w.count() >= enough })
		kill.do()
		stop()
		<-done
		c.eventually(2*time.Minute, "the database is back", func() (string, bool) {
			out, err := c.try("", "exec", "pg-0", "--", "psql", "-c", "select 1")
			return out, err == nil
		})
		if lost := w.missing("pg-0"); len(lost) > 0 {
			t.Errorf("after a kill of %s, of %d acknowledged rows these are lost: %v", kill.name, w.count(), lost)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.write(ctx) }()
	sure := &writer{c: c, acks: map[string]bool{}}
	w.mu.Lock()
	for row := range w.acks {
		sure.acks[row] = true
	}
	w.mu.Unlock()
	c.apply(copiedDatabase)
	c.waitFor("pod/copy", "condition=Ready", 2*time.Minute)
	stop()
	<-done
	if lost := sure.missing("copy"); len(lost) > 0 {
		t.Errorf("the copy of the volume misses %d of %d rows that were acknowledged before it was made: %v", len(lost),
			len(sure.acks), lost)
	}
	t.Logf("%d rows were acknowledged", w.count())
	c.kubectl("delete", "pod", "copy")
	c.kubectl("delete", "statefulset", "pg")
	c.kubectl("delete", "pvc", "--all")
}
