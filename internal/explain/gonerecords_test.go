package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/journal"
)

// A static Pod whose manifest its kubelet cannot use is told with the file and the field; one whose
// manifest was used afterwards, and a Pod that another rule refused, are not.
//
// row: RST-10
func TestAManifestThatTheKubeletRefuses(t *testing.T) {
	bad := journal.Refused{Reason: journal.StaticPodInvalid, Message: `/etc/kubernetes/manifests/web.yaml: invalid ` +
		`pod: [spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit ` +
		`of 1]`}
	for name, c := range map[string]struct {
		facts []journal.Fact
		want  string
		field string
	}{
		"refused": {[]journal.Fact{bad}, "cannot use the manifest /etc/kubernetes/manifests/web.yaml",
			"spec.containers[0].resources.requests"},
		"not to be read": {[]journal.Fact{journal.Refused{Reason: journal.StaticPodInvalid,
			Message: "/m/web.yaml: couldn't parse as pod(yaml: line 3)"}}, "couldn't parse as pod(yaml: line 3)",
			"manifest"},
		"used afterwards": {[]journal.Fact{bad, journal.Accepted{}, journal.Deleting{User: "admin"}}, "", ""},
		"another refusal": {[]journal.Fact{journal.Refused{Reason: "OutOfcpu", Message: "m"}}, "", ""},
	} {
		in := base()
		in.Pod = nil
		for i, f := range c.facts {
			in.fact(time.Minute-time.Duration(i)*time.Second, "kubelet", f)
		}
		f, a := blamed(in, "ManifestInvalid")
		if c.want == "" && f.Code != "" || !strings.Contains(a.Cause, c.want) || f.Field != c.field {
			t.Errorf("%s: got %q, field %q, want %q, %q", name, a.Cause, f.Field, c.want, c.field)
		}
	}
	in := base()
	in.fact(time.Minute, "kubelet", bad)
	if f, a := blamed(in, "ManifestInvalid"); f.Code != "" {
		t.Errorf("of a Pod that is there: got %q, want nothing of a manifest", a.Cause)
	}
}

// Of an object that a controller deleted its record is the reason; without one the events are.
//
// row: RST-10
func TestAnObjectThatAControllerDeleted(t *testing.T) {
	r := journal.Ref{Kind: "Job", Namespace: "shop", Name: "once"}
	entry := func(f journal.Fact) []journal.Entry {
		return []journal.Entry{{At: t0.Add(-time.Minute), Ref: r, Fact: f}}
	}
	events := Answer{Subject: "job/once in shop", State: "gone", Cause: "It is no longer in the API.",
		Fixes: []Fix{commandFix("read", "kubectl get events")}}
	for name, c := range map[string]struct {
		events Answer
		facts  []journal.Entry
		want   string
		known  bool
	}{
		"by its TTL": {events, entry(journal.Acted{Controller: "ttl-after-finished", Action: "deletes the Job",
			Message: "it ended, and is kept for its ttlSecondsAfterFinished of 5 s"}), "deleted by the " +
			"ttl-after-finished controller 1m0s ago: it ended, and is kept for its ttlSecondsAfterFinished of 5 " +
			"s", true},
		"without events": {Answer{}, entry(journal.Acted{Controller: "garbagecollector", Action: "deletes the Job",
			Message: "its owner is not there"}), "deleted by the garbagecollector controller", true},
		"another fact": {events, entry(journal.Acted{Controller: "x", Action: "marks it"}), "no longer in the " +
			"API", true},
		"events alone":    {events, nil, "no longer in the API", true},
		"nothing at all":  {Answer{}, nil, "", false},
		"nothing of that": {Answer{}, entry(journal.Waiting{For: "x"}), "", false},
	} {
		a, known := GoneByController(c.events, r, c.facts, t0)
		if known != c.known || !strings.Contains(a.Cause, c.want) || known && a.Subject != "job/once in shop" {
			t.Errorf("%s: got %v, %+v, want %v, %q", name, known, a, c.known, c.want)
		}
		if !a.Well() && known && strings.Contains(a.Cause, "controller") && len(a.Findings) != 1 {
			t.Errorf("%s: got findings %+v, want one note", name, a.Findings)
		}
	}
}

// A Pod that a taint of its silent node ended tells how long it tolerates it and who waits for its
// name; one that a person deleted does not.
//
// row: RST-10
func TestAPodOfASilentNodeThatATaintEnded(t *testing.T) {
	unreachable := corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute}
	tolerates := corev1.Toleration{Key: unreachable.Key, Operator: corev1.TolerationOpExists,
		Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To(int64(10))}
	const silent = "confirm the end of its containers, and that node is not ready."
	for name, c := range map[string]struct {
		reason      string
		tolerations []corev1.Toleration
		owner       string
		want        []string
		not         string
	}{
		"tolerated for a while": {"DeletionByTaintManager", []corev1.Toleration{tolerates}, "StatefulSet",
			[]string{silent, "taint node.kubernetes.io/unreachable:NoExecute, which it tolerates for 10 s " +
				"(spec.tolerations[0].tolerationSeconds)", "StatefulSet db cannot make a new web"}, ""},
		"not tolerated": {"DeletionByTaintManager", nil, "ReplicaSet",
			[]string{"which it does not tolerate"}, "cannot make"},
		"by a person": {"", []corev1.Toleration{tolerates}, "StatefulSet",
			[]string{silent, "StatefulSet db cannot make a new web"}, "taint node"},
	} {
		in := base()
		in.Node = node(corev1.ConditionUnknown)
		in.Node.Spec.Taints = []corev1.Taint{unreachable}
		in.Pod.DeletionTimestamp = &metav1.Time{Time: t0.Add(-time.Minute)}
		in.Pod.Spec.Tolerations = c.tolerations
		in.Pod.OwnerReferences = []metav1.OwnerReference{{Kind: c.owner, Name: "db", Controller: ptr.To(true)}}
		if c.reason != "" {
			in.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget,
				Status: corev1.ConditionTrue, Reason: c.reason}}
		}
		a := Why(in)
		for _, w := range c.want {
			if !strings.Contains(a.Cause, w) {
				t.Errorf("%s: got %q, want %q", name, a.Cause, w)
			}
		}
		if c.not != "" && strings.Contains(a.Cause, c.not) {
			t.Errorf("%s: got %q, want nothing of %q", name, a.Cause, c.not)
		}
		if run := firstRun(a); !strings.Contains(run, "kubectl taint node n1 node.kubernetes.io/out-of-service=") {
			t.Errorf("%s: got %q first, want the taint of a machine that is off", name, run)
		}
	}
}
