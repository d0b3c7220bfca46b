package plugins_test

import (
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumerestrictions"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

func volume(source v1.VolumeSource) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", len(p.Spec.Volumes)),
			VolumeSource: source})
	}
}

// disks are a disk of each kind by its name and whether it is mounted read-only; none is of no
// kind that is looked at.
var disks = map[string]func(name string, readOnly bool) v1.VolumeSource{
	"GCE": func(name string, readOnly bool) v1.VolumeSource {
		return v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: name, ReadOnly: readOnly}}
	},
	"EBS": func(name string, readOnly bool) v1.VolumeSource {
		return v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: name,
			ReadOnly: readOnly}}
	},
	"iSCSI": func(name string, readOnly bool) v1.VolumeSource {
		return v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{IQN: name, ReadOnly: readOnly}}
	},
	"RBD": func(name string, readOnly bool) v1.VolumeSource {
		return v1.VolumeSource{RBD: &v1.RBDVolumeSource{CephMonitors: []string{"m"}, RBDPool: "p", RBDImage: name,
			ReadOnly: readOnly}}
	},
	"none": func(string, bool) v1.VolumeSource {
		return v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
	},
}

// Each kind of disk keeps a Pod off the node of another that has the same one, and off no other;
// read-only mounts share all but EBS. When such a Pod goes, who waited for its disk is queued.
func TestDisksOfEachKind(t *testing.T) {
	pl, n := volumerestrictions.New(nil), func(p *v1.Pod) framework.NodeInfo {
		return snapshot.NewNodeInfo(newNode("a"), podInfo(p))
	}
	for kind, mine := range disks {
		for other, theirs := range disks {
			for _, name := range []string{"d", "e"} {
				for _, reads := range []string{"neither", "one", "the other", "both"} {
					a, b := reads == "one" || reads == "both", reads == "the other" || reads == "both"
					p := newPod("p", volume(disks["none"]("", false)), volume(mine("d", a)))
					q := newPod("q", onNode("a"), volume(disks["none"]("", false)), volume(theirs(name, b)))
					want := kind == other && name == "d" && kind != "none" && (reads != "both" || kind == "EBS")
					what := fmt.Sprintf("%s d beside %s %s, %s read-only", kind, other, name, reads)
					s := pl.Filter(t.Context(), schedule.NewCycleState(), p, n(q))
					if (s.Code() == framework.Unschedulable && s.Message() == "node(s) had no available disk" &&
						s.Plugin() == "VolumeRestrictions") != want || !want && s != nil {
						t.Errorf("%s: got %s, want refused %t", what, statusLine(s), want)
					}
					queued := map[bool]string{true: "Queue", false: "QueueSkip"}[want]
					if got := hint(t, pl, framework.AssignedPod, framework.Delete, p, [2]any{q, nil}); got != queued {
						t.Errorf("%s, which goes: got %s, want %s", what, got, queued)
					}
					e := pl.Explain(t.Context(), schedule.NewCycleState(), p, n(q))
					text := "VolumeTaken: Pod ns/q on this node has a disk that this Pod wants and that cannot be " +
						"shared; remove Pod ns/q, or mount the disk read-only in both"
					if got := string(e.Code) + ": " + e.Detail + "; " + e.Fix; want && got != text || !want &&
						e.Code != "" {
						t.Errorf("%s: explained as %s, want %s", what, got, text)
					}
				}
			}
		}
	}
	rbd := func(pool, image string, monitors ...string) func(*v1.Pod) {
		return volume(v1.VolumeSource{RBD: &v1.RBDVolumeSource{RBDPool: pool, RBDImage: image, CephMonitors: monitors}})
	}
	mine := newPod("p", rbd("p", "i", "1", "2"))
	for what, c := range map[string]struct {
		q    *v1.Pod
		want string
	}{
		"the same":       {newPod("q", rbd("p", "i", "2", "1")), "Unschedulable: node(s) had no available disk"},
		"another pool":   {newPod("q", rbd("other", "i", "1", "2")), "Success"},
		"another image":  {newPod("q", rbd("p", "other", "1", "2")), "Success"},
		"other monitors": {newPod("q", rbd("p", "i", "3", "4")), "Success"},
		"the second of two": {newPod("q", rbd("p", "other", "1"), rbd("p", "i", "1")),
			"Unschedulable: node(s) had no available disk"},
		"without any monitor": {newPod("q", rbd("p", "i")), "Success"},
	} {
		if got := statusLine(pl.Filter(t.Context(), schedule.NewCycleState(), mine, n(c.q))); got != c.want {
			t.Errorf("RBD, %s: got %s, want %s", what, got, c.want)
		}
	}
}

// Claims for one Pod at a time are counted, each; who has neither those nor disks is skipped.
func TestClaimsOfOnePodAtATime(t *testing.T) {
	once := func(name string) *v1.PersistentVolumeClaim {
		return newClaim(name, "x", "1Gi", func(c *v1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany, v1.ReadWriteOncePod}
		})
	}
	objects := []runtime.Object{once("one"), once("two"), newClaim("shared", "x", "1Gi")}
	gce := volume(disks["GCE"]("d", false))
	for name, c := range map[string]struct {
		p       *v1.Pod
		fail    zoneFailing
		prepare string
		skips   bool // it does not even have what could matter
	}{
		"nothing":           {p: newPod("p"), prepare: "Skip: ", skips: true},
		"no disk":           {p: newPod("p", volume(disks["none"]("", false))), prepare: "Skip: ", skips: true},
		"a shared claim":    {p: newPod("p", mounts("shared")), prepare: "Skip: "},
		"a disk":            {p: newPod("p", gce), prepare: "Success"},
		"a disk and others": {p: newPod("p", volume(disks["none"]("", false)), gce), prepare: "Success"},
		"a claim":           {p: newPod("p", mounts("one")), prepare: "Success"},
		"one of two":        {p: newPod("p", mounts("shared", "one")), prepare: "Success"},
		"not there": {p: newPod("p", mounts("gone")),
			prepare: `UnschedulableAndUnresolvable: persistentvolumeclaim "gone" not found`},
		"not readable": {p: newPod("p", mounts("one")), fail: zoneFailing{claim: errors.New("down")},
			prepare: "Error: down"},
	} {
		c.fail.Listers = volumelisters.Of(objects...)
		pl, state := volumerestrictions.New(c.fail), schedule.NewCycleState()
		r, s := pl.PreFilter(t.Context(), state, c.p, nil)
		if got := statusLine(s); got != c.prepare || r != nil || pl.Skips(c.p, nil) != c.skips {
			t.Errorf("%s: got %v, %s, skips %t, want %s, skips %t", name, r, got, pl.Skips(c.p, nil), c.prepare,
				c.skips)
		}
	}
	if _, s := volumerestrictions.New(nil).PreFilter(t.Context(), schedule.NewCycleState(), newPod("p", mounts("one")),
		nil); s.Code() != framework.Skip {
		t.Errorf("without listers: got %s, want Skip", statusLine(s))
	}

	// Two users of one claim each and one of both; all must go before the Pod fits.
	pl, p := volumerestrictions.New(volumelisters.Of(objects...)), newPod("p", mounts("shared", "one", "two"))
	users := map[string]*v1.Pod{"one": newPod("u1", onNode("a"), mounts("one")),
		"two":     newPod("u2", onNode("b"), mounts("shared", "two")),
		"none":    newPod("u3", onNode("a"), mounts("shared"), volume(disks["none"]("", false))),
		"foreign": newPod("u4", onNode("a"), mounts("one", "two"), inNamespace("ns2"))}
	var pods []*v1.Pod
	for _, u := range users {
		pods = append(pods, u)
	}
	w, state := snapshot.Of([]*v1.Node{newNode("a"), newNode("b")}, pods), schedule.NewCycleState()
	if _, s := pl.PreFilter(t.Context(), state, p, w.All()); s != nil {
		t.Fatalf("got %s, want success", statusLine(s))
	}
	refused := "Unschedulable: node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod " +
		"access mode"
	for _, step := range []struct {
		do   func(user string)
		user string
		want string
	}{
		{func(u string) { pl.RemovePod(t.Context(), state, p, podInfo(users[u]), w.Node("a")) }, "one", refused},
		{func(u string) { pl.RemovePod(t.Context(), state, p, podInfo(users[u]), w.Node("a")) }, "none", refused},
		{func(u string) { pl.RemovePod(t.Context(), state, p, podInfo(users[u]), w.Node("a")) }, "foreign", refused},
		{func(u string) { pl.RemovePod(t.Context(), state, p, podInfo(users[u]), w.Node("b")) }, "two", "Success"},
		{func(u string) { pl.AddPod(t.Context(), state, p, podInfo(users[u]), w.Node("a")) }, "foreign", "Success"},
		{func(u string) { pl.AddPod(t.Context(), state, p, podInfo(users[u]), w.Node("a")) }, "none", "Success"},
		{func(u string) { pl.AddPod(t.Context(), state, p, podInfo(users[u]), w.Node("a")) }, "one", refused},
		{func(u string) { pl.RemovePod(t.Context(), state, p, podInfo(users[u]), w.Node("a")) }, "one", "Success"},
	} {
		step.do(step.user)
		for _, n := range w.All() {
			s := pl.Filter(t.Context(), state, p, n)
			if got := statusLine(s); got != step.want || s != nil && s.Plugin() != "VolumeRestrictions" {
				t.Errorf("after the user of %s, on %s: got %s, want %s", step.user, n.Node().Name, got, step.want)
			}
		}
	}
	empty := schedule.NewCycleState()
	pl.AddPod(t.Context(), empty, p, podInfo(users["one"]), w.Node("a"))
	if s := pl.Filter(t.Context(), empty, p, w.Node("a")); s != nil {
		t.Errorf("without PreFilter: got %s, want success", statusLine(s))
	}
	for what, state := range map[string]framework.CycleState{"without PreFilter": empty, "without a snapshot": state} {
		if e := pl.Explain(t.Context(), state, p, w.Node("a")); e.Code != "" || e.Detail != "" {
			t.Errorf("%s: explained as %v, want nothing", what, e)
		}
	}
	// who has it is named, and nobody of another namespace or claim
	r := schedulePod(p, pl, snapshot.Of([]*v1.Node{newNode("a"), newNode("b")}, []*v1.Pod{users["foreign"],
		users["none"],
		users["two"]}))
	want := refused + " | claim ns/two is for one Pod at a time (ReadWriteOncePod), and Pod ns/u2 on b has it | " +
		"remove Pod ns/u2, or use a claim of its own"
	if got := statusText(r, "a"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestVolumeRestrictionsHints(t *testing.T) {
	pl := volumerestrictions.New(nil)
	made := v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}
	waits := newPod("p", volume(made), mounts("data"), volume(disks["none"]("", false)))
	for name, c := range map[string]struct {
		about  framework.EventResource
		before any
		after  any
		want   string
	}{
		"a user of its claim": {framework.AssignedPod, newPod("q", mounts("x", "data")), nil, "Queue"},
		"one of another namespace": {framework.AssignedPod, newPod("q", mounts("data"), inNamespace("ns2")), nil,
			"QueueSkip"},
		"of another claim":                 {framework.AssignedPod, newPod("q", mounts("x")), nil, "QueueSkip"},
		"of the claim that is made for it": {framework.AssignedPod, newPod("q", mounts("p-v0")), nil, "Queue"},
		"of no claim": {framework.AssignedPod, newPod("q", volume(disks["none"]("", false))), nil,
			"QueueSkip"},
		"its claim comes": {framework.PersistentVolumeClaim, nil, newClaim("data", "x", "1Gi"),
			"Queue"},
		"another claim comes": {framework.PersistentVolumeClaim, nil, newClaim("x", "x", "1Gi"),
			"QueueSkip"},
		"a node comes": {framework.Node, nil, newNode("a"), "Queue"},
	} {
		if got := hint(t, pl, c.about, framework.Add|framework.Delete, waits, [2]any{c.before,
			c.after}); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
