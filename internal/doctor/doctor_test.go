package doctor_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/doctor"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ready(status v1.ConditionStatus) *v1.NodeCondition {
	return &v1.NodeCondition{
		Type: v1.NodeReady, Status: status, Reason: "KubeletNotReady", Message: "runtime is down",
		LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
		LastHeartbeatTime:  metav1.NewTime(now.Add(-2 * time.Minute)),
	}
}

func port(code int) doctor.Facts {
	return doctor.Facts{
		Nodes: []doctor.Node{{Name: "n1", Anonymous: doctor.Answer{Address: "192.0.2.1:10250", Code: code}}}}
}

func driver(kubelet, runtime string) doctor.Facts {
	return doctor.Facts{
		Runtime: &doctor.Runtime{Endpoint: "unix:///run/c.sock", Name: "containerd", Version: "2.4.2",
			CgroupDriver: runtime},
		Nodes: []doctor.Node{
			{Name: "n1", Local: true, Config: &kubeletconfig.KubeletConfiguration{CgroupDriver: kubelet}}},
	}
}

func disk(available uint64) doctor.Facts {
	return doctor.Facts{Machine: &doctor.Machine{Unified: true,
		Disks: []doctor.Disk{{Path: "/var", Contents: "Pods", Capacity: 100 << 30, Available: available << 30,
			Inodes: 100, InodesFree: 50}}}}
}

func cert(from, to time.Duration) doctor.Facts {
	return doctor.Facts{
		Certificates: []doctor.Certificate{{Where: "/pki/a.crt", Use: "serving", NotBefore: now.Add(from),
			NotAfter: now.Add(to)}}}
}

func server(here time.Duration) doctor.Facts {
	return doctor.Facts{API: &doctor.API{URL: "https://a", Version: "v1.37.2", Date: now, Here: now.Add(here)},
		Nodes: []doctor.Node{{Name: "n1", Ready: ready(v1.ConditionTrue)}}}
}

func node(n doctor.Node) doctor.Facts {
	n.Name = "n1"
	return doctor.Facts{API: &doctor.API{URL: "https://a", Version: "v1.37.2", Date: now, Here: now},
		Nodes: []doctor.Node{n}}
}

var errNone = errors.New("no answer")

// Each check says what is wrong, with numbers and a remedy; if all is well only that.
func TestEachCheckNamesFaultAndRemedy(t *testing.T) {
	for _, c := range []struct {
		name  string
		facts doctor.Facts
		check string
		level doctor.Level
		text  string
		fix   string
	}{
		{"cgroup v2", disk(50), "cgroups", doctor.OK, "cgroup v2", ""},
		{"cgroup v1", doctor.Facts{Machine: &doctor.Machine{}}, "cgroups", doctor.Note, "cgroup v1",
			"unified_cgroup_hierarchy"},
		{"room", disk(50), "disk", doctor.OK, "50 % free (50.0 GiB of 100.0 GiB)", ""},
		{"little room", disk(14), "disk", doctor.Warning, "14 % free", "images that no Pod uses are removed"},
		{"no room", disk(9), "disk", doctor.Problem, "9 % free", "Pods are evicted"},
		{"no inodes",
			doctor.Facts{
				Machine: &doctor.Machine{Disks: []doctor.Disk{{Path: "/var", Capacity: 10, Available: 9, Inodes: 100,
					InodesFree: 4}}}}, "disk", doctor.Problem, "4 % of inodes free (4 of 100)", "du --inodes"},
		{"no disk", doctor.Facts{Machine: &doctor.Machine{Disks: []doctor.Disk{{Path: "/var", Err: errNone}}}},
			"disk", doctor.Problem, "no answer", "mount it"},
		{"runtime", driver("cgroupfs", "cgroupfs"), "runtime", doctor.OK, "containerd 2.4.2 is ready", ""},
		{"no runtime", doctor.Facts{Runtime: &doctor.Runtime{Endpoint: "unix:///x", Err: errNone}},
			"runtime", doctor.Problem, "no answer", "--container-runtime-endpoint"},
		{"no network",
			doctor.Facts{
				Runtime: &doctor.Runtime{
					NotReady: []doctor.Condition{{"NetworkReady", "NetworkPluginNotReady",
						"cni plugin not initialized"}}}}, "runtime", doctor.Problem, "cni plugin not initialized",
			"CNI directory"},
		{"one driver", driver("systemd", "systemd"), "cgroup-driver", doctor.OK, "use systemd", ""},
		// row: QOS-09
		{"two drivers", driver("systemd", "cgroupfs"), "cgroup-driver", doctor.Problem,
			"the kubelet's cgroupDriver is systemd, the runtime's is cgroupfs", "SystemdCgroup = true"},
		{"young certificate", cert(-time.Hour, 99*time.Hour), "certificates", doctor.OK, "4 days more", ""},
		{"old certificate", cert(-99*time.Hour, 10*time.Hour), "certificates", doctor.Warning, "in 10h0m0s",
			"why it was not renewed"},
		{"ended certificate", cert(-99*time.Hour, -time.Hour), "certificates", doctor.Problem, "ended on 2026-03-01",
			"restart"},
		{"certificate of tomorrow", cert(time.Hour, 99*time.Hour), "certificates", doctor.Problem,
			"counts only from 2026-03-01T13:00:00Z on", "clock"},
		{"damaged certificate", doctor.Facts{Certificates: []doctor.Certificate{{Where: "/a", Err: errNone}}},
			"certificates", doctor.Problem, "cannot be read", "remove it"},
		{"server", server(0), "api-server", doctor.OK, "Kubernetes v1.37.2", ""},
		{"no server", doctor.Facts{API: &doctor.API{URL: "https://a", Err: errNone}}, "api-server", doctor.Problem,
			"no answer", "Pods that run go on"},
		{"server not ready", doctor.Facts{API: &doctor.API{URL: "https://a", Failing: []doctor.FailingCheck{
			{"watch-cache-progress", "the watch cache of pods has stood at revision 7 for 40s while etcd is at 9"},
		}}}, "api-server", doctor.Problem,
			"not ready: watch-cache-progress: the watch cache of pods has stood at revision 7",
			"restart the API server"},
		{"clock", server(2 * time.Second), "clock", doctor.OK, "within 5s", ""},
		{"clock ahead", server(time.Minute), "clock", doctor.Warning, "1m0s ahead of", "chrony"},
		{"clock behind", server(-time.Minute), "clock", doctor.Warning, "1m0s behind", "chrony"},
		{"node", server(0), "nodes", doctor.OK, "ready since 2026-03-01T11:00:00Z", ""},
		{"nodes that disagree on their routes", doctor.Facts{NodeRoutes: []string{"direct on a and vxlan on b"}},
			"node-routes", doctor.Problem, "direct on a and vxlan on b", "--node-routes"},
		{"no node", doctor.Facts{API: &doctor.API{}}, "nodes", doctor.Warning, "no node", "gantry kubelet"},
		{"silent node", node(doctor.Node{Ready: ready(v1.ConditionUnknown)}), "nodes", doctor.Problem,
			"nothing was heard of its kubelet for 2m0s", "start its kubelet"},
		{"sick node", node(doctor.Node{Ready: ready(v1.ConditionFalse)}), "nodes", doctor.Problem, "runtime is down",
			"mend"},
		{"mute node", node(doctor.Node{}), "nodes", doctor.Problem, "never said", "log"},
		{"closed port", port(401), "kubelet-port", doctor.OK, "asks everybody who they are", ""},
		// row: KAP-16
		{"open port", port(200), "kubelet-port", doctor.Problem, "GET /pods without credentials gave 200",
			"authentication.anonymous.enabled: false"},
		{"anonymous on", port(403), "kubelet-port", doctor.Warning, "anonymous authentication is on",
			"authentication.anonymous.enabled: false"},
		{"unreachable port",
			doctor.Facts{Nodes: []doctor.Node{{Anonymous: doctor.Answer{Address: "a:1", Err: errNone}}}},
			"kubelet-port", doctor.Warning, "cannot be reached", "open the port"},
		{"odd port", port(500), "kubelet-port", doctor.Note, "gave 500", ""},
		{"everything allowed",
			doctor.Facts{
				Nodes: []doctor.Node{
					{Config: &kubeletconfig.KubeletConfiguration{Authorization: kubeletconfig.KubeletAuthorization{
						Mode: "AlwaysAllow"}}}}}, "kubelet-port", doctor.Problem, "AlwaysAllow", "Webhook"},
		{"read-only port", doctor.Facts{Nodes: []doctor.Node{{ReadOnly: doctor.Answer{Address: "a:10255", Code: 200}}}},
			"read-only-port", doctor.Warning, "anybody", "readOnlyPort: 0"},
		// row: EVC-36
		{"evictions in vain", node(doctor.Node{Goroutines: 9, Evictions: 3,
			Fruitless: map[string]int64{"memory.available": 3}}), "evictions", doctor.Problem,
			"3 Pods in a row were evicted for memory.available and no more became available", "see whether Pods end"},
		{"one eviction in vain", node(doctor.Node{Goroutines: 9,
			Fruitless: map[string]int64{"nodefs.available": 1}}), "evictions", doctor.Note,
			"the last eviction for nodefs.available brought nothing", ""},
		{"evictions", node(doctor.Node{Goroutines: 9, Evictions: 4,
			Fruitless: map[string]int64{"nodefs.available": 0}}), "evictions", doctor.OK,
			"4 Pods evicted since its kubelet started, none in vain", ""},
		// row: KSL-34
		{"few goroutines", node(doctor.Node{Goroutines: 52}), "goroutines", doctor.OK, "52 goroutines", ""},
		{"goroutines of a busy node", node(doctor.Node{Goroutines: 700}), "goroutines", doctor.OK, "700 goroutines",
			""},
		{"many goroutines", node(doctor.Node{Goroutines: 50000}), "goroutines", doctor.Warning, "50000 goroutines",
			"kubelet_stuck_pod_seconds"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.facts.Now = now
			for _, f := range doctor.Examine(c.facts) {
				if f.Check != c.check {
					continue
				}
				if f.Level != c.level || !strings.Contains(f.Text, c.text) || !strings.Contains(f.Fix, c.fix) ||
					(c.fix == "") != (f.Fix == "") {
					t.Errorf("got %+v, want level %v, text with %q, fix with %q", f, c.level, c.text, c.fix)
				}
				return
			}
			t.Errorf("no finding of %s", c.check)
		})
	}
}

// A check without facts returns nothing.
func TestNoFactsNoFindings(t *testing.T) {
	if got := doctor.Examine(doctor.Facts{Now: now}); len(got) > 0 {
		t.Errorf("got %+v, want no got", got)
	}
}

func role(name string, resources ...string) rbacv1.ClusterRole {
	return rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: resources, Verbs: []string{"get"}}}}
}

func binding(role, kind, subject string) rbacv1.ClusterRoleBinding {
	return rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role + "-to-" + subject},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: kind, Name: subject}},
	}
}

// Rights of broad groups on the kubelet API are found with their bindings.
// row: KAP-16
func TestBroadKubeletAPIGrantsAreFound(t *testing.T) {
	roles := []rbacv1.ClusterRole{role("proxy", "nodes/proxy"), role("all", "*"),
		role("stats", "nodes/stats", "nodes/metrics"), role("nodes", "nodes"), role("some", "*/proxy")}
	for _, c := range []struct {
		binding rbacv1.ClusterRoleBinding
		level   doctor.Level
		text    string
	}{
		{binding("proxy", "Group", "system:authenticated"), doctor.Problem,
			"system:authenticated (every user and every Pod) may run commands in every container"},
		{binding("all", "Group", "system:serviceaccounts"), doctor.Problem, "every Pod"},
		{binding("some", "User", "system:anonymous"), doctor.Problem, "everybody, without credentials"},
		{binding("proxy", "Group", "system:serviceaccounts:ci"), doctor.Problem, "every Pod of namespace ci"},
		{binding("stats", "Group", "system:authenticated"), doctor.Warning, "read stats, metrics of every kubelet"},
		{binding("nodes", "Group", "system:authenticated"), doctor.OK, "no group"},
		{binding("proxy", "Group", "system:masters"), doctor.OK, "no group"},
		{binding("proxy", "ServiceAccount", "system:authenticated"), doctor.OK, "no group"},
	} {
		grants := append([]doctor.AccessGrant{}, doctor.Grants(roles, []rbacv1.ClusterRoleBinding{c.binding})...)
		got := doctor.Examine(doctor.Facts{Now: now, Grants: grants})
		if len(got) != 1 || got[0].Level != c.level || !strings.Contains(got[0].Text, c.text) {
			t.Errorf("%s: got %+v, want 1 in got, Level %v and Text with %v", c.binding.Name, got, c.level, c.text)
		}
		if c.level == doctor.Problem && !strings.Contains(got[0].Fix,
			"kubectl delete clusterrolebinding "+c.binding.Name) {
			t.Errorf("%s: got fix %s, want one that deletes the binding", c.binding.Name, got[0].Fix)
		}
	}
}

// The failing hop closest to the container is named, whatever the others say.
// row: KAP-09
// row: KAP-10
func TestExecPathNamesTheHop(t *testing.T) {
	hops := []doctor.ExecHop{{Name: "API server", Response: "HTTPS"}, {Name: "kubelet", Response: "HTTPS"},
		{Name: "runtime, shim and process", Response: "CRI over gRPC"}}
	blamed := func(list []doctor.ExecHop) string {
		for _, f := range doctor.Examine(doctor.Facts{Now: now, ExecHops: list}) {
			if f.Level == doctor.Problem {
				return f.About
			}
		}
		return ""
	}
	if got := blamed(hops); got != "" {
		t.Errorf("all answer, blamed: got %s, want it empty", got)
	}
	for i := range hops {
		broken := append([]doctor.ExecHop{}, hops...)
		for j := range i + 1 {
			broken[j].Err = errNone
		}
		if got := blamed(broken); got != hops[i].Name {
			t.Errorf("hop %d: blamed is %s", i, got)
		}
	}
}

// What is printed has a line for each finding and its remedy below.
func TestPrintedFindings(t *testing.T) {
	var b strings.Builder
	list := []doctor.Finding{{Check: "disk", About: "/var", Text: "Pods: 50 % free"},
		{Check: "runtime", Level: doctor.Problem, Text: "does not answer", Fix: "start it"}}
	if err := doctor.Write(&b, list); err != nil {
		t.Fatal(err)
	}
	want := "ok      disk           /var: Pods: 50 % free\nproblem runtime        does not answer\n                  " +
		"     → start it\n"
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
	if some, none := doctor.Worst(list), doctor.Worst(nil); some != doctor.Problem || none != doctor.OK {
		t.Errorf("got the worst %v of the list and %v of none, want %v and %v", some, none, doctor.Problem, doctor.OK)
	}
}
