package simulate

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
)

const cluster = `
apiVersion: v1
kind: Node
metadata: {name: a}
status: {capacity: {cpu: "4", memory: 8Gi}}
---
apiVersion: v1
kind: Node
metadata: {name: b}
status: {capacity: {cpu: "2", memory: 8Gi}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: app, image: app, resources: {requests: {cpu: 900m}}}
`

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := New(cli.IO{Out: &out, Err: &out})
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// manifests writes the cluster into a directory.
func manifests(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cluster.yaml"), []byte(cluster), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A drain of a cluster of manifests says which Pod finds no room and what would help; it is not
// kept.
func TestDrainOfManifests(t *testing.T) {
	dir, store := manifests(t), t.TempDir()
	out, err := run(t, "drain", "node/a", "--from", dir, "--store", store, "--horizon", "20m")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"drain node/a: not done within 20:00.0: 1 of 2 Pods that came do not become ready",
		"evicted", "does not become ready:\n  default/web-", "cpu", "→ "} {
		if !strings.Contains(out, want) {
			t.Errorf("the answer lacks %q:\n%s", want, out)
		}
	}
	if kept, _, err := forecast.ReadAll(store); err != nil || len(kept) != 0 {
		t.Errorf("kept %d, %v, want none of manifests", len(kept), err)
	}
}

// The same as data and as a picture.
func TestOtherOutputs(t *testing.T) {
	dir := manifests(t)
	out, err := run(t, "rollout", "deployment/web", "--from", dir, "--keep=false", "-o", "json", "--ready-after", "7s")
	if err != nil {
		t.Fatal(err)
	}
	var f forecast.Forecast
	if err := json.Unmarshal([]byte(out), &f); err != nil || !f.Outcome.Done || len(f.Capacity) == 0 {
		t.Errorf("error %v, outcome %+v, want one that is done", err, f.Outcome)
	}
	if out, err = run(t, "scale", "deployment/web", "--replicas", "1", "--from", dir, "--keep=false", "-o",
		"svg"); err != nil || !strings.HasPrefix(out, "<svg ") {
		t.Errorf("error %v, want a picture, got %.80s", err, out)
	}
	pod := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(pod, []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: "+
		"[{name: c, image: c, resources: {requests: {cpu: \"1\"}}}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err = run(t, "capacity", "-f", pod, "--from", dir); err != nil || !strings.HasPrefix(out,
		"3 fit on 2 nodes\nwhat runs out, by the number of nodes:\n  cpu on 2\n") {
		t.Errorf("error %v, want 3 that fit beside the three of the Deployment, got %s", err, out)
	}
	if !strings.Contains(out, "best shape of node: 4 cpu, 8Gi memory, with 0.5 Pods per core\n") {
		t.Errorf("got %s, want the shape of node a, which takes more of as many per core", out)
	}
	out, err = run(t, "capacity", "--pod", "-f", pod, "--from", dir, "-o", "svg")
	if err != nil || !strings.HasPrefix(out, "<svg ") || !strings.Contains(out, "0.5 per core; 2 on 1 nodes: best") {
		t.Errorf("error %v, want a picture that names the best shape, got %s", err, out)
	}
}

// The claims of a StatefulSet do not keep its Pods from being counted, and the answer says that
// they were not looked at.
func TestCapacityOfStatefulSet(t *testing.T) {
	set := filepath.Join(t.TempDir(), "set.yaml")
	if err := os.WriteFile(set, []byte("apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec:\n"+
		"  selector: {matchLabels: {app: db}}\n  volumeClaimTemplates: [{metadata: {name: data}}]\n  template:\n"+
		"    metadata: {labels: {app: db}}\n    spec: {containers: [{name: c, image: c, resources: {requests: "+
		"{cpu: \"1\"}}, volumeMounts: [{name: data, mountPath: /data}]}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "capacity", "-f", set, "--from", manifests(t))
	if err != nil || !strings.HasPrefix(out, "3 fit on 2 nodes\n") ||
		!strings.Contains(out, "note: spec.volumeClaimTemplates are not looked at") ||
		!strings.HasSuffix(out, ": data\n") {
		t.Errorf("error %v, want 3 that fit and a note, got %s", err, out)
	}
}

// A file says how containers behave: those of a new version end soon, so its rollout is not done.
func TestTimesOfAFile(t *testing.T) {
	dir, file := manifests(t), filepath.Join(t.TempDir(), "times.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("deployment/web: {start: 3s, ready: {p50: 4s, p99: 10s}}\n")
	args := []string{"rollout", "deployment/web", "--from", dir, "--times", file, "--max-surge", "1",
		"--max-unavailable", "0"}
	out, err := run(t, args...)
	if err != nil || !strings.Contains(out, "of 20 runs the fastest took") {
		t.Errorf("error %v, want 20 runs as times are spread, got %s", err, out)
	}
	out, err = run(t, append(args, "--ready-after", "p99")...)
	if err != nil || !strings.Contains(out, "done after 40.0s\n") {
		t.Errorf("error %v, want three Pods of 3 s and 10 s each and the end of each old one, got %s", err, out)
	}
	write("deployment/web: {ready: 10s, run: 5s, exitCode: 1, ends: true}\n")
	out, err = run(t, append(args, "--horizon", "10m")...)
	if err != nil ||
		!strings.Contains(out, "ends again and again: last with exit code 1") {
		t.Errorf("error %v, want that the new Pods crash, got %s", err, out)
	}
	write("web: {start: 3s}\n")
	if _, err = run(t, args...); err == nil || !strings.Contains(err.Error(), "write deployment/NAME") {
		t.Errorf("error %v, want one that says what to write", err)
	}
}

const scaled = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: default}
spec:
  maxReplicas: 4
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 100}}}]
`

// More load has the autoscaler make Pods up to its most; the answer says what it would need.
func TestLoad(t *testing.T) {
	dir := manifests(t)
	if err := os.WriteFile(filepath.Join(dir, "scaled.yaml"), []byte(scaled), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "load", "deployment/web=2x", "--from", dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"load deployment/web=2x: done after",
		"deployment/web: 2700m of cores and 0 in 3 Pods before, 5400m of cores and 0 in 4 (4 ready) at the end",
		"horizontalpodautoscaler/web: the desired replica count is more than the maximum replica count",
		`→ let it have 6 Pods; kubectl -n default patch hpa web -p '{"spec":{"maxReplicas":6}}'`,
		"note: neither a metrics API nor a kubelet tells what the Pods of deployment/web take"} {
		if !strings.Contains(out, want) {
			t.Errorf("the answer lacks %q:\n%s", want, out)
		}
	}
	if out, err = run(t, "load", "deployment/web=+50%", "--from", dir, "-o", "json"); err != nil ||
		!strings.Contains(out, `"autoscaler": "web"`) {
		t.Errorf("error %v, want the load as data, got %s", err, out)
	}
	if out, err = run(t, "load", "deployment/web=+50%", "--from", dir, "-o", "svg"); err != nil ||
		!strings.HasPrefix(out, "<svg ") {
		t.Errorf("error %v, want a picture, got %.80s", err, out)
	}
}

// Forecasts of other clusters and of files are not scored.
func TestScoredForecastsAreOfOneCluster(t *testing.T) {
	var kept []forecast.Stored
	for _, f := range []forecast.Forecast{{Source: liveSource, Cluster: "a"}, {Source: liveSource, Cluster: "b"},
		{Source: liveSource}, {Source: "[x.yaml]", Cluster: "a"}} {
		kept = append(kept, forecast.Stored{Forecast: &f})
	}
	if got := ofCluster(kept, "a"); len(got) != 2 || got[0].Cluster != "a" || got[1].Cluster != "" {
		t.Errorf("got %d forecasts, want that of a and the one that does not tell", len(got))
	}
}

// Wrong calls name what is wrong.
func TestWrongCalls(t *testing.T) {
	dir, empty := manifests(t), t.TempDir()
	noNodes := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(noNodes, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(broken, []byte("apiVersion: v1\nkind: Pod\nspec: [1]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	unknown, nameless := filepath.Join(t.TempDir(), "x.yaml"), filepath.Join(t.TempDir(), "x.yaml")
	for name, text := range map[string]string{
		unknown:  "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {replica: 2}\n",
		nameless: "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c, image: c}]}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"drain", "wants nodes as node/NAME, or a zone"},
		{"drain zone/a node/b --from " + dir, "a zone stands alone"},
		{"lose zone/a --zone b --from " + dir, "wants nodes as node/NAME, or a zone"},
		{"lose zone/x --from " + dir, "x"},
		{"rollout deployment/web --ready-after p75 --from " + dir, "a duration such as 20s, or p50 or p99"},
		{"drain pod/x --from " + dir, `"pod/x" is not a node`},
		{"drain node/zzz --from " + dir, `there is no node "zzz"; there are: a, b`},
		{"drain node/a --from " + empty, "there is no Kubernetes object in it"},
		{"drain node/a --from " + noNodes, "there is no node in what was read"},
		{"drain node/a --from " + broken, broken + ", document 1"},
		{"drain node/a --from /does/not/exist", "no such file"},
		{"drain node/a --fork --from " + dir, "--fork and --from exclude each other"},
		{"drain node/a -o yaml --from " + dir, `output "yaml"`},
		{"drain node/a --seeds -1 --from " + dir, "--seeds -1"},
		{"drain node/a --horizon 0s --from " + dir, "--horizon 0s"},
		{"rollout deployment/web --ready-after -3s --from " + dir, "must not be negative"},
		{"rollout web --from " + dir, `"web": write deployment/NAME`},
		{"rollout deployment/web --max-surge x --from " + dir, `--max-surge "x"`},
		{"rollout deployment/web --max-surge -1 --from " + dir, "spec.strategy.rollingUpdate.maxSurge"},
		{"rollout deployment/web --max-surge 0 --max-unavailable 0 --from " + dir,
			"spec.strategy.rollingUpdate.maxUnavailable"},
		{"scale deployment/web --from " + dir, "wants --replicas"},
		{"scale deployment/web --replicas -2 --from " + dir, "spec.replicas"},
		{"set image deployment/web --from " + dir, "wants deployment/NAME and CONTAINER=IMAGE"},
		{"set image deployment/web other=x --from " + dir, "spec.template.spec.containers"},
		{"rollout deployment/web --max-surge 4294967297 --from " + dir, "must be a number up to 2147483647"},
		{"apply --from " + dir + " -f " + unknown, `unknown field "spec.replica"`},
		{"capacity --from " + dir + " -f " + nameless, "Pod: metadata.name: must not be empty"},
		{"load --from " + dir, "wants workloads as deployment/NAME=+50%"},
		{"load deployment/web=50% --from " + dir, `"50%": write +50%`},
		{"load deployment/zzz=2x --from " + dir, "there is no deployment/zzz in namespace default"},
		{"apply --from " + dir, "wants manifests with -f"},
		{"capacity --from " + dir, "wants a Pod with -f"},
	} {
		_, err := run(t, append(strings.Fields(c.args), "--keep=false")...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.args, err, c.want)
		}
	}
}
