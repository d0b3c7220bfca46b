package replay_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/replay"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// transcript is a decision between a node that holds the image and one that is emptier: the image
// wins.
func transcript(t *testing.T) []byte {
	t.Helper()
	node := func(name, cpu string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: quantity(cpu), v1.ResourceMemory: quantity("8Gi"), v1.ResourcePods: quantity("9")}}}
	}
	small, big, full := node("small", "2"), node("big", "8"), node("full", "500m")
	small.Status.Images = []v1.ContainerImage{{Names: []string{"i:latest"}, SizeBytes: 900 << 20}}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "web"},
		Spec: v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c", Image: "i"}}}}
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: quantity("1")}
	pluginSet, err := plugins.DefaultPluginSet("default-scheduler", nil)
	if err != nil {
		t.Fatal(err)
	}
	taken := replay.Inputs{Input: schedule.Input{Pod: p, Snapshot: snapshot.Of([]*v1.Node{small, big, full}, nil),
		Plugins: pluginSet}}
	taken.Result = schedule.SchedulePod(context.Background(), taken.Input).Fact()
	if taken.Config, err = replay.ProfileConfig(config.Default(), 0); err != nil {
		t.Fatal(err)
	}
	line, err := replay.Record(taken).Line()
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func open(t *testing.T, line []byte) *replay.ReplayedDecision {
	t.Helper()
	d, err := replay.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	c, err := replay.Open(d)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestChangedResultIsFound(t *testing.T) {
	cases := []struct{ name, from, to, want string }{
		{"nothing", "", "", "shop/web: same: "},
		{"weight", `"name":"ImageLocality","weight":1`, `"name":"ImageLocality","weight":50`, "ImageLocality"},
		{"winner", `"winner":"`, `"winner":"not-`, "winner: recorded not-"},
		{"refusal", `"detail":"`, `"detail":"not `,
			"refusal 1: recorded full by NodeResourcesFit (Insufficient cpu), not "},
		{"score", `"weighted":`, `"weighted":1`, "score of "},
		{"node", `"cpu":"500m"`, `"cpu":"5"`, "nodes that fit: recorded 2, now 3"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			line := string(transcript(t))
			if !strings.Contains(line, c.from) {
				t.Fatalf("%s is not in %s", c.from, line)
			}
			v, err := open(t, []byte(strings.Replace(line, c.from, c.to, 1))).Replay(t.Context())
			if err != nil || !strings.Contains(v.Line(), c.want) || v.Equal() != (c.name == "nothing") {
				t.Errorf("got %s, %v, want no error, v.Line() with %v and v.Equal() %v", v.Line(), err, c.want,
					c.name == "nothing")
			}
		})
	}
}

func TestAnotherConfigurationMovesPods(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	cases := []struct{ name, profile, want string }{
		{"equal", "", "shop/web: same: "},
		{"room first", "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeResourcesFit, weight: 90}]}}}]",
			"shop/web: different: small, with the other configuration big (recorded: small "},
		{"no room anywhere",
			"profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: " +
				"{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: " +
				"metadata.name, operator: In, values: [none]}]}]}}}}]}]",
			"shop/web: different: small, with the other configuration no node; refusal of small by NodeAffinity"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			other, err := config.Load([]byte(head + c.profile))
			if err != nil {
				t.Fatal(err)
			}
			v, err := open(t, transcript(t)).CompareConfig(t.Context(), other)
			if err != nil || !strings.HasPrefix(v.Line(), c.want) {
				t.Errorf("got %s, %v, want no error and v.Line() beginning with %v", v.Line(), err, c.want)
			}
		})
	}
	other := config.Default()
	other.Profiles[0].SchedulerName = new("somebody")
	if _, err := open(t, transcript(t)).CompareConfig(t.Context(), other); err == nil || !strings.Contains(err.Error(),
		`there is no profile "default-scheduler"`) {
		t.Errorf("without the profile: %v", err)
	}
}

func TestUnrecordedDecisionsAreSkipped(t *testing.T) {
	line := strings.Replace(string(transcript(t)), `"choice":`, `"extenders":true,"choice":`, 1)
	v, err := open(t, []byte(line)).Replay(t.Context())
	if err != nil || v.Skipped == "" || !strings.Contains(v.Line(), "shop/web: not replayed: extenders") {
		t.Errorf(`got %s, %v, want no error, Skipped other than empty and v.Line() with "shop/web: not replayed: `+
			`extenders"`, v.Line(), err)
	}
}

func TestADamagedLineNamesTheField(t *testing.T) {
	cases := []struct{ name, from, to, want string }{
		{"format", `"format":1`, `"format":7`, "format: 7 is not known"},
		{"pod", `"pod":{`, `"pod":null,"objects":{},"pod2":{`, `unknown field "pod2"`},
		{"type", `"choice":{"percent":0`, `"choice":{"percent":"x"`, "choice.percent: want int32, got a JSON string"},
		{"node twice", `"name":"small"`, `"name":"big"`, `nodes[`},
		{"config", `"kind":"KubeSchedulerConfiguration"`, `"kind":"Pod"`, "config: "},
		{"plugin", `"name":"ImageLocality"`, `"name":"Mine"`, "Mine"},
		{"profile", `"profile":"default-scheduler"`, `"profile":"x"`, `config.profiles: there is no profile "x"`},
		{"nodes", `"nodes":3`, `"nodes":4`, "nodes: 3 are listed"},
		{"selector", `"choice":`, `"selector":"a in","choice":`, "selector: "},
		{"namespace", `"objects":{}`, `"objects":{"namespaces":[null]}`, "objects.namespaces[0]: "},
		{"not JSON", `{"format"`, `hello {"format"`, "not a decision"},
	}
	check := func(t *testing.T, line, want string) {
		t.Helper()
		d, err := replay.Read([]byte(line))
		if err == nil {
			_, err = replay.Open(d)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			line := string(transcript(t))
			changed := strings.Replace(line, c.from, c.to, 1)
			if c.name == "node twice" {
				changed = line[:strings.LastIndex(line, c.from)] + c.to + line[strings.LastIndex(line,
					c.from)+len(c.from):]
			}
			if changed == line {
				t.Fatalf("%s is not in %s", c.from, line)
			}
			check(t, changed, c.want)
		})
	}
	line := transcript(t)
	if !json.Valid(line) {
		t.Error("a line is not JSON")
	}
	for i := 1; i < len(line)-1; i += 97 { // wherever it is cut, nothing panics
		check(t, string(line[:i]), "cut off")
	}
}
