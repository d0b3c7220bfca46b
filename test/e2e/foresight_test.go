package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

const memoryUser = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: docker.io/library/busybox:1.28
    command: [sh, -c, 'dd if=/dev/zero of=/memory/file bs=1M count=50 && sleep 3600']
    resources: {requests: {memory: 10Mi}}
    volumeMounts: [{name: memory, mountPath: /memory}]
  volumes: [{name: memory, emptyDir: {medium: Memory}}]
`

// The live node's figures: who would go next, at how many bytes, and what would save it; a request
// that is advised changes the order. A node that is well is not told of unasked.
func TestForesightOfALiveNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	c.apply(memoryUser)
	c.waitFor("pod/web", "condition=Ready", time.Minute)
	type margin struct {
		Signal          string
		Available, Left int64
		Near            bool
	}
	type place struct {
		Pod    string
		Signal string
		At     int64
		Use    int64
		Why    string
		Saving []struct {
			Change  string
			Request int64
		}
	}
	var answer struct {
		Victims   []json.RawMessage
		Foresight struct {
			Margins []margin
			Next    []place
		}
	}
	c.eventually(30*time.Second, "web takes memory and would be evicted", func() (string, bool) {
		out := c.gantry("simulate", "eviction", "--node", "node-1", "-o", "json")
		if err := json.Unmarshal([]byte(out), &answer); err != nil {
			t.Fatalf("got no JSON: %v\n%s", err, out)
		}
		i := slices.IndexFunc(answer.Foresight.Next, func(x place) bool {
			return x.Pod == "default/web" &&
				x.Signal == "memory.available"
		})
		return out, i >= 0 && answer.Foresight.Next[i].Use > 50<<20
	})
	if len(answer.Victims) > 0 || len(answer.Foresight.Margins) == 0 {
		t.Errorf("got %+v, want thresholds and no victim now", answer)
	}
	asked := c.gantry("why", "pod/web", "--pressure")
	if !strings.Contains(asked, "would be evicted first for memory.available, at") {
		t.Errorf("asked, why says\n%s\nwant when web would be evicted", asked)
	}
	if node := c.gantry("why", "node/node-1", "--pressure"); !strings.Contains(node, "default/web would be evicted") ||
		!strings.Contains(node, "gantry simulate eviction --node node-1") {
		t.Errorf("asked, why says\n%s\nwant who would be evicted", node)
	}
	short := c.gantry("simulate", "eviction", "--node", "node-1", "--set", "node.memory.available=50Mi")
	if want := "evicts default/web"; !strings.Contains(short, want) {
		t.Errorf("with 50Mi left: got\n%s\nwant %s", short, want)
	}
	if !slices.ContainsFunc(answer.Foresight.Margins, func(m margin) bool { return m.Near }) {
		if out := c.gantry("why", "pod/web"); strings.Contains(out, "evicted") {
			t.Errorf("no threshold is near, and unasked why says\n%s", out)
		}
	}
	sized := c.gantry("size", "--node", "node-1")
	if !strings.Contains(sized, "kubeReserved:") {
		t.Errorf("size: got\n%s\nwant a configuration", sized)
	}
}
