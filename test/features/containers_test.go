package features_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gantry-project/gantry/test/images"
)

// What only real containers can show.
func TestContainers(t *testing.T) {
	n := startNode(t)
	t.Run("in turn", func(t *testing.T) {
		for _, x := range []struct {
			name string
			test func(*node)
		}{
			{"out of memory", oomKilled},     // row: QOS-12
			{"leaves of cgroups", leaves},    // row: QOS-08
			{"grace periods", gracePeriods},  // row: TRM-01, TRM-02
			{"investigation", investigation}, // row: RST-11
			{"describe", describe},           // row: OPS-02
			{"progress of a pull", pullProgress},
		} {
			t.Run(x.name, func(t *testing.T) {
				t.Parallel()
				x.test(n.forSubtest(t))
			})
		}
	})
}

func pod(name, rest string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n%s", name, rest)
}

func oomKilled(n *node) {
	n.apply(pod("oom", `
  containers:
  - {name: greedy, image: "busybox:1.28", command: ["dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1000"],
      resources: {limits: {memory: 24Mi}}}
  - {name: modest, image: "busybox:1.28", command: ["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 0.2; done"]}
`))
	n.waitForField("oom", ".status.containerStatuses[?(@.name=='greedy')].lastState.terminated.reason", "OOMKilled")
	if got := n.field("oom", ".status.containerStatuses[?(@.name=='greedy')].lastState.terminated.exitCode"); got !=
		"137" {
		n.t.Errorf("exit code: got %s, want %s", got, "137")
	}
	if got := n.field("oom", ".status.containerStatuses[?(@.name=='greedy')].restartCount"); got == "0" {
		n.t.Error("not restarted")
	}
	if got := n.field("oom", ".status.containerStatuses[?(@.name=='modest')]['restartCount','ready']"); got !=
		"0 true" {
		n.t.Errorf("the neighbour: got %s, want %s", got, "0 true")
	}
	if events := n.run("kubectl", "events", "--for", "pod/oom"); strings.Contains(events, "Evicted") {
		n.t.Errorf("evicted:\n%s", events)
	}
	n.run("kubectl", "delete", "pod", "oom", "--grace-period=1")
}

func leaves(n *node) {
	n.apply(pod("leaves", `
  containers:
  - {name: a, image: "busybox:1.28", command: ["sleep", "1000"]}
  - {name: b, image: "busybox:1.28", command: ["sleep", "1000"]}
`))
	n.waitForField("leaves", ".status.phase", "Running")
	var found []string
	for _, mount := range []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup"} {
		found, _ = filepath.Glob(filepath.Join(mount, "gantry-*/kubepods/besteffort/pod"+n.field("leaves",
			".metadata.uid")))
		if len(found) > 0 {
			break
		}
	}
	if len(found) != 1 {
		n.t.Fatalf("cgroups of the Pod: got %v, want one of them", found)
	}
	for _, id := range strings.Fields(n.field("leaves", ".status.containerStatuses[*].containerID")) {
		_, id, _ = strings.Cut(id, "://")
		leaf := filepath.Join(found[0], id)
		if procs, err := os.ReadFile(filepath.Join(leaf, "cgroup.procs")); err != nil ||
			len(bytes.TrimSpace(procs)) == 0 {
			n.t.Errorf("container %s has no cgroup with processes below %s: %v", id, found[0], err)
		}
	}
	if procs, err := os.ReadFile(filepath.Join(found[0], "cgroup.procs")); err != nil || len(procs) > 0 {
		n.t.Errorf("processes in the Pod's own cgroup: got %q %v, want no error and none", procs, err)
	}
	n.run("kubectl", "delete", "pod", "leaves", "--grace-period=1")
}

func gracePeriods(n *node) {
	ignoresTERM := "trap '' TERM; while true; do sleep 0.1; done"
	for _, name := range []string{"default-grace", "own-grace", "forced", "without-force"} {
		n.apply(pod(name,
			fmt.Sprintf("  containers:\n  - {name: app, image: \"busybox:1.28\", command: [\"sh\", \"-c\", %q]}\n",
				ignoresTERM)))
	}
	for _, name := range []string{"default-grace", "own-grace", "forced", "without-force"} {
		n.waitForField(name, ".status.phase", "Running")
	}
	n.run("kubectl", "delete", "pod", "default-grace", "--wait=false")
	n.run("kubectl", "delete", "pod", "own-grace", "--wait=false", "--grace-period=7")
	for name, want := range map[string]string{"default-grace": "30", "own-grace": "7"} {
		if got := n.field(name, ".metadata.deletionGracePeriodSeconds"); got != want {
			n.t.Errorf("%s: got %s s, want %v", name, got, want)
		}
	}
	// With both flags the object is gone at once, and its process is seen to later.
	start := time.Now()
	if out := n.run("kubectl", "delete", "pod", "forced", "--force", "--grace-period=0"); !strings.Contains(out,
		"force deleted") {
		n.t.Errorf(`got %v, want out with "force deleted"`, out)
	}
	if out, err := n.try("", "kubectl", "get", "pod", "forced"); err == nil || !strings.Contains(out, "NotFound") {
		n.t.Errorf("still there after %s: %s", time.Since(start), out)
	}
	// Without --force kubectl asks for a second, and waits for the end.
	uid := n.field("without-force", ".metadata.uid")
	if out := n.run("kubectl", "delete", "pod", "without-force", "--grace-period=0"); strings.Contains(out,
		"force deleted") {
		n.t.Errorf(`got %v, want out without "force deleted"`, out)
	}
	if left, _ := filepath.Glob("/sys/fs/cgroup/*/gantry-*/kubepods/besteffort/pod" + uid + "/*/cgroup.procs"); len(
		left) > 0 {
		n.t.Errorf("kubectl came back while containers were there: %v", left)
	}
	for _, name := range []string{"default-grace", "own-grace"} { // one whose grace is over by now may be gone
		if out, err := n.try("", "kubectl", "delete", "pod", name, "--force", "--grace-period=0"); err != nil &&
			!strings.Contains(out, "NotFound") {
			n.t.Errorf("deleting %s: got %v %s, want no error", name, err, out)
		}
	}
}

func investigation(n *node) {
	n.apply(pod("crashes", `
  containers:
  - {name: app, image: "busybox:1.28", command: ["sh", "-c", "echo cannot open the ledger; exit 3"],
      resources: {limits: {memory: 64Mi}}}
`))
	n.waitForField("crashes", ".status.containerStatuses[0].state.waiting.reason", "CrashLoopBackOff")
	for command, want := range map[string]string{
		"logs crashes":            "cannot open the ledger",
		"logs crashes --previous": "cannot open the ledger",
		"describe pod crashes":    "Back-off restarting failed container app in pod crashes_default",
		"get pod crashes -o jsonpath={.spec.containers[0].resources.limits.memory}": "64Mi",
		"debug pod/crashes --image=busybox:1.28 --container=look -- sh -c true":     "",
	} {
		if out := n.run(append([]string{"kubectl"}, strings.Fields(command)...)...); !strings.Contains(out, want) {
			n.t.Errorf("%s: %s\nwant %q in it", command, out, want)
		}
	}
	n.waitForField("crashes", ".status.ephemeralContainerStatuses[0].state.terminated.reason", "Completed")
	n.run("kubectl", "delete", "pod", "crashes", "--grace-period=1")
}

// slowly serves what it serves in small pieces with pauses between them.
type slowly struct{ http.ResponseWriter }

func (w slowly) Write(b []byte) (int, error) {
	const piece = 64 << 10
	for at := 0; at < len(b); at += piece {
		if _, err := w.ResponseWriter.Write(b[at:min(at+piece, len(b))]); err != nil {
			return at, err
		}
		w.ResponseWriter.(http.Flusher).Flush()
		<-time.After(50 * time.Millisecond) // what is being shown is slowness
	}
	return len(b), nil
}

// noise is a file that no compression makes smaller.
func noise(size int) []byte {
	out := make([]byte, 0, size)
	for i := 0; len(out) < size; i++ {
		sum := sha256.Sum256(fmt.Append(nil, i))
		out = append(out, sum[:]...)
	}
	return out[:size]
}

func pullProgress(n *node) {
	reg, err := images.Serve(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
				w = slowly{w}
			}
			next.ServeHTTP(w, r)
		})
	})
	if err != nil {
		n.t.Fatal(err)
	}
	defer reg.Close()
	err = reg.Push("team/big:1", func() (ggcr.Image, error) {
		base, err := images.Busybox()
		if err != nil {
			return nil, err
		}
		return images.WithLayer(base, []images.File{{Path: "noise", Mode: 0o644, Body: noise(6 << 20)}})
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.apply(pod("pulls", fmt.Sprintf("  containers:\n  - {name: app, image: %q, command: [sleep, \"1000\"]}\n",
		reg.Addr+"/team/big:1")))
	n.eventually("bytes in why", func() (string, bool) {
		out, err := n.try("", "why", "pod/pulls")
		return out, err == nil && strings.Contains(out, "of container app is being pulled: ") && strings.Contains(out,
			" MB of ")
	})
	n.waitForField("pulls", ".status.phase", "Running")
	if events := n.run("kubectl", "events", "--for", "pod/pulls"); !strings.Contains(events,
		"Successfully pulled image \""+reg.Addr+"/team/big:1\" in ") || !strings.Contains(events,
		" including waiting). Image size: ") {
		n.t.Errorf("events:\n%s", events)
	}
	n.run("kubectl", "delete", "pod", "pulls", "--grace-period=1")
}
