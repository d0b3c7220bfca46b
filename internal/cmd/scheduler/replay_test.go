package scheduler

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/replay"
	schedulerplace "github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// decided is a decision between a node that holds the Pod's image and a larger one.
func decided(t *testing.T) *replay.Decision {
	t.Helper()
	node := func(name, cpu string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("8Gi"),
			v1.ResourcePods: resource.MustParse("9")}}}
	}
	holds := node("holds", "2")
	holds.Status.Images = []v1.ContainerImage{{Names: []string{"i:latest"}, SizeBytes: 900 << 20}}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "web"},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}}}}}
	schedulerPlugins, err := plugins.DefaultPluginSet(config.DefaultSchedulerName, nil)
	if err != nil {
		t.Fatal(err)
	}
	taken := replay.Inputs{Input: schedulerplace.Input{Pod: p,
		Snapshot: snapshot.Of([]*v1.Node{holds, node("large", "8")}, nil), Plugins: schedulerPlugins}}
	taken.Result = schedulerplace.SchedulePod(t.Context(), taken.Input).Fact()
	if taken.Config, err = replay.ProfileConfig(config.Default(), 0); err != nil {
		t.Fatal(err)
	}
	return replay.Record(taken)
}

// recorder writes decisions to a file, until stop is called.
func recorder(t *testing.T, file string) (put func(*replay.Decision), stop func()) {
	t.Helper()
	var r options.DecisionRecorder
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	r.Flags(f, "record-decisions")
	if err := f.Set("record-decisions", file); err != nil {
		t.Fatal(err)
	}
	put, err := r.OpenFile()
	if err != nil {
		t.Fatal(err)
	}
	return put, r.Stop
}

func TestReplay(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "decisions")
	put, stop := recorder(t, file)
	put(decided(t))
	put(decided(t))
	stop()
	put(decided(t)) // nothing is written any more
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	other := write("other.yaml",
		"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{plugins: "+
			"{multiPoint: {enabled: [{name: NodeResourcesFit, weight: 90}]}}}]\n")
	cut := write("cut", string(whole[:len(whole)-100]))
	cases := []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"same", []string{file}, 0, []string{"shop/web: same: holds\nshop/web: same: holds\n",
			"2 decisions: 2 same, 0 different, 0 not replayed\n"}},
		{"quiet", []string{file, "-q"}, 0, []string{"2 decisions: 2 same"}},
		{"other", []string{file, "--config", other}, 1,
			[]string{"shop/web: different: holds, with the other configuration large (recorded: holds ",
				"gantry: 2 of 2 decisions are different"}},
		{"changed", []string{write("changed", strings.Replace(string(whole), `"winner":"holds"`, `"winner":"large"`,
			1))}, 1, []string{"shop/web: different: winner: recorded large, now holds", "1 different"}},
		{"cut", []string{cut}, 2,
			[]string{"shop/web: same: holds\n", "cut: line 2: the line ends before its JSON does"}},
		{"field", []string{write("field", strings.Replace(string(whole), `"percent":0`, `"percent":"all"`, 1))}, 2,
			[]string{"field: line 1: choice.percent: want int32"}},
		{"empty", []string{write("empty", "\n")}, 2, []string{"no decision is recorded there"}},
		{"no file", []string{filepath.Join(dir, "absent")}, 2, []string{"no such file"}},
		{"no argument", nil, 2, []string{"want one file"}},
		{"bad configuration", []string{file, "--config", write("bad.yaml", "kind: Pod\napiVersion: v1\n")}, 2,
			[]string{"bad.yaml"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			streams := cli.IO{Out: &out, Err: &out}
			code := cli.Execute(t.Context(), cli.Root(streams, New(streams)),
				append([]string{"scheduler", "replay"}, c.args...), &out)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%s\nlacks %s", out.String(), want)
				}
			}
		})
	}
	put, stop = recorder(t, cut) // what is cut off stays in its line
	put(decided(t))
	stop()
	if raw, err := os.ReadFile(cut); err != nil || strings.Count(string(raw), "\n") != 3 {
		t.Errorf("want the cut line ended and one more: %q, %v", raw, err)
	}
}
