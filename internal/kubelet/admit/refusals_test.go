package admit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/reason"
)

func whole(r *reason.Refusal) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%s by %s: %s; %s", r.Code, r.By, r.Detail, r.Fix)
}

// What a refusal says to a person: who refused, why, and what can be done.
func TestRefusalsSayWhatToDo(t *testing.T) {
	strict := v1.SupplementalGroupsPolicyStrict
	const static = "kubernetes.io/config.source"
	for _, c := range []struct {
		in   admit.In
		want string
	}{
		{admit.In{Pod: pod(withRequests("2500m", "1Mi")), Node: node()},
			"OutOfcpu by kubelet/admit: Node didn't have enough resource: cpu, requested: 2500, used: 0, capacity: " +
				"2000; lower the request or free 500"},
		{admit.In{Pod: pod(port(80)), Node: node(), OtherPods: []*v1.Pod{pod(port(80))}},
			"NodePorts by kubelet/admit: Predicate NodePorts failed: node(s) didn't have free ports for the " +
				"requested pod ports; host port 80 is taken on this node: choose another"},
		{admit.In{Pod: pod(nil), Node: tainted(v1.TaintEffectNoExecute)},
			"TaintToleration by kubelet/admit: Predicate TaintToleration failed: node(s) had taints that the pod " +
				"didn't tolerate; tolerate the taint {k: v} of this node, or place the Pod on another"},
		{admit.In{Pod: pod(sysctl("net.core.somaxconn"))}, `SysctlForbidden by kubelet/admit: forbidden sysctl: ` +
			`"net.core.somaxconn" not allowlisted; allow it with allowedUnsafeSysctls in the kubelet's configuration`},
		{admit.In{Pod: pod(func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: "Localhost"}}
		})}, "AppArmor by kubelet/admit: Cannot enforce AppArmor: AppArmor is not enabled on the host; enable " +
			"AppArmor on the node, place the Pod on a node that has it, or take appArmorProfile out of the Pod"},
		{admit.In{Pod: pod(func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: &strict}
		}), Node: node()}, "SupplementalGroupsPolicyNotSupported by kubelet/admit: SupplementalGroupsPolicy=Strict " +
			"is not supported in this node; place the Pod on a node whose status.features.supplementalGroupsPolicy " +
			"is true, or use Merge"},
		{admit.In{Pod: pod(nil), Node: node(), Pressure: []v1.NodeConditionType{v1.NodeDiskPressure}}, "Evicted by " +
			"kubelet/admit: The node had condition: [DiskPressure]. ; kubectl describe node shows what the node is " +
			"short of; Pods are taken in again when the condition is over"},
	} {
		if got := whole(admit.Admit(c.in)); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	resize := func(p *v1.Pod, policies admit.Policies) string {
		have := runningPod("p", "500m", 0, true)
		return whole(admit.CanResize(admit.Resize{Pod: p, Allocated: have}, node(), nil, policies))
	}
	file := runningPod("p", "1", 0, true)
	file.Annotations = map[string]string{static: "file"}
	memory := runningPod("p", "500m", 0, true)
	memory.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("2Mi")
	for _, c := range []struct{ got, want string }{
		{resize(file, admit.Policies{}), "Infeasible by kubelet/admit: In-place resize of static-pods is not " +
			"supported; change the static Pod's file: it is made anew"},
		{resize(memory, admit.Policies{Swap: true}), "Infeasible by kubelet/admit: In-place resize of containers " +
			"with swap is not supported.; set resizePolicy RestartContainer for memory"},
		{resize(runningPod("p", "1", 0, true), admit.Policies{CPU: "static"}),
			"Infeasible by kubelet/admit: Resize is " +
				`infeasible for Guaranteed Pods alongside CPU Manager policy "static"; make the Pod anew`},
		{resize(memory, admit.Policies{Memory: "Static"}), "Infeasible by kubelet/admit: Resize is infeasible for " +
			`Guaranteed Pods alongside Memory Manager policy "Static"; make the Pod anew`},
		{resize(runningPod("p", "1", 0, true), admit.Policies{Memory: "Static"}), ""},
		{resize(memory, admit.Policies{CPU: "static"}), ""},
		{resize(runningPod("p", "1", 0, true), admit.Policies{Swap: true}), ""},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
}

// With swap a container that restarts for its new memory may change it.
func TestSwapAndResizePolicy(t *testing.T) {
	p := runningPod("p", "500m", 0, false)
	p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("2Mi")
	p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory,
		RestartPolicy: v1.RestartContainer}}
	r := admit.Resize{Pod: p, Allocated: runningPod("p", "500m", 0, false)}
	if got := admit.CanResize(r, node(), nil, admit.Policies{Swap: true}); got != nil {
		t.Errorf("got %v, want the resize allowed", got)
	}
	if got := admit.CanResize(r, nil, nil, admit.Policies{}); got != nil {
		t.Errorf("no Node yet: got %v, want the resize allowed", got)
	}
}

// https://kubernetes.io/docs/tasks/administer-cluster/sysctl-cluster/#safe-and-unsafe-sysctls
func TestSysctls(t *testing.T) {
	for _, name := range []string{"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
		"net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports",
		"net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
		"net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"} {
		for _, spelled := range []string{name, strings.ReplaceAll(name, ".", "/")} {
			if r := admit.BeforeAllocation(admit.In{Pod: pod(sysctl(spelled))}); r != nil {
				t.Errorf("%s: got %v, want it safe", spelled, r)
			}
		}
	}
	const unsafe = "not allowlisted"
	network := func(p *v1.Pod) { p.Spec.HostNetwork = true }
	ipc := func(p *v1.Pod) { p.Spec.HostIPC = true }
	for _, c := range []struct {
		name    string
		change  func(*v1.Pod)
		allowed []string
		want    string
	}{
		{"net.core.somaxconn", nil, []string{"net.core.*x", "net.cor"}, unsafe},
		{"net.core.somaxconn", nil, []string{"x", "net/core/*"}, ""},
		{"net.core.somaxconn", nil, []string{"net.core.somaxconn"}, ""},
		{"net/core/somaxconn", nil, []string{"net.core.somaxconn"}, ""},
		{"net.ipv4.tcp_syncookies", network, nil, "not allowed with host net enabled"},
		{"net.ipv4.tcp_syncookies", ipc, nil, ""},
		{"kernel.shm_rmid_forced", network, nil, ""},
		{"kernel.shm_rmid_forced", ipc, nil, "not allowed with host ipc enabled"},
		{"kernel.msgmax", ipc, []string{"kernel.*"}, "not allowed with host ipc enabled"},
		{"kernel.sem", ipc, []string{"kernel.*"}, "not allowed with host ipc enabled"},
		{"kernel.other", ipc, []string{"kernel.*"}, ""},
		{"fs.mqueue.msg_max", ipc, []string{"fs.mqueue.*"}, "not allowed with host ipc enabled"},
		{"fs.mqueue.msg_max", nil, []string{"fs.mqueue.*"}, ""},
	} {
		p := pod(sysctl(c.name))
		if c.change != nil {
			c.change(p)
		}
		want := ""
		if c.want != "" {
			want = fmt.Sprintf("forbidden sysctl: %q %s", c.name, c.want)
		}
		got := ""
		if r := admit.BeforeAllocation(admit.In{Pod: p, AllowedSysctls: c.allowed}); r != nil {
			got = r.Detail
		}
		if got != want {
			t.Errorf("%s with %v allowed: got %q, want %q", c.name, c.allowed, got, want)
		}
	}
}

// Checks that ask the Node are left out while there is none.
func TestWithoutANode(t *testing.T) {
	p := pod(withRequests("100", "1Mi"))
	p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	if got := admit.Admit(admit.In{Pod: p}); got != nil {
		t.Errorf("got %v, want the Pod admitted", got)
	}
	p.Spec.NodeSelector, p.Spec.NodeName = nil, ""
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"example.com/x": resource.MustParse("2")}
	has := node()
	has.Status.Allocatable["example.com/x"] = resource.MustParse("1")
	if got := admit.Admit(admit.In{Pod: p, Node: has}); got == nil || got.Code != "OutOfexample.com/x" {
		t.Errorf("two of one extended resource: got %v, want OutOfexample.com/x", got)
	}
	p.Spec.Containers[0].Resources.Requests = nil
	if got := admit.Admit(admit.In{Pod: p, Node: has}); got != nil {
		t.Errorf("a Pod that names no node: got %v, want it admitted", got)
	}
	p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		SecurityContext: &v1.SecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: "RuntimeDefault"}}}}}
	if got := admit.Admit(admit.In{Pod: p, Node: has}); got == nil || got.Code != reason.AdmitAppArmor {
		t.Errorf("an ephemeral container's profile: got %v, want AppArmor", got)
	}
}

func preempted(in admit.In) string {
	victims, refusal := admit.PodsToPreempt(in)
	var names []string
	for _, v := range victims {
		names = append(names, v.Name)
	}
	return strings.TrimSpace(strings.Join(names, " ") + " " + whole(refusal))
}

// Who goes, by what is missing.
func TestMakeRoomByResource(t *testing.T) {
	asks := func(name string, requests map[v1.ResourceName]string) *v1.Pod {
		p := runningPod(name, "", 0, false)
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{}
		for k, v := range requests {
			p.Spec.Containers[0].Resources.Requests[k] = resource.MustParse(v)
		}
		return p
	}
	important := func(requests map[v1.ResourceName]string) *v1.Pod {
		p := asks("new", requests)
		p.Spec.Priority = new(int32(critical))
		return p
	}
	none := map[v1.ResourceName]string{}
	big := node()
	for k, v := range map[v1.ResourceName]string{"pods": "3", "ephemeral-storage": "10Gi", "example.com/x": "4",
		"cpu": "4"} {
		big.Status.Allocatable[k] = resource.MustParse(v)
	}
	for _, c := range []struct {
		name   string
		pod    *v1.Pod
		others []*v1.Pod
		want   string
	}{
		{"the number of Pods", important(none), []*v1.Pod{asks("a", map[v1.ResourceName]string{"cpu": "1m"}),
			asks("b", none), asks("c", map[v1.ResourceName]string{"memory": "1Mi"})}, "b"},
		{"memory", important(map[v1.ResourceName]string{"memory": "300Mi"}),
			[]*v1.Pod{asks("a", map[v1.ResourceName]string{"memory": "500Mi"}),
				asks("b", map[v1.ResourceName]string{"memory": "400Mi"})}, "b"},
		{"storage", important(map[v1.ResourceName]string{"ephemeral-storage": "6Gi"}),
			[]*v1.Pod{asks("a", map[v1.ResourceName]string{"memory": "1Mi"}),
				asks("b", map[v1.ResourceName]string{"ephemeral-storage": "8Gi"})}, "b"},
		{"an extended resource", important(map[v1.ResourceName]string{"example.com/x": "3"}),
			[]*v1.Pod{asks("a", map[v1.ResourceName]string{"cpu": "1m"}),
				asks("b", map[v1.ResourceName]string{"cpu": "2m", "example.com/x": "3"})}, "b"},
		{"several, the best first", important(map[v1.ResourceName]string{"cpu": "3"}),
			[]*v1.Pod{asks("a", map[v1.ResourceName]string{"cpu": "1"}), asks("b",
				map[v1.ResourceName]string{"cpu": "2"}),
				asks("c", map[v1.ResourceName]string{"cpu": "1"})}, "b a"},
		{"two of three equals", important(map[v1.ResourceName]string{"cpu": "3"}),
			[]*v1.Pod{asks("a", map[v1.ResourceName]string{"cpu": "1"}),
				asks("b", map[v1.ResourceName]string{"cpu": "1"}), asks("c", map[v1.ResourceName]string{"cpu": "1"})},
			"a b"},
		{"two resources, one Pod that has both", important(map[v1.ResourceName]string{"cpu": "2", "memory": "512Mi"}),
			[]*v1.Pod{asks("a", map[v1.ResourceName]string{"cpu": "2", "memory": "1Mi"}),
				asks("b", map[v1.ResourceName]string{"cpu": "1500m", "memory": "900Mi"})}, "b"},
		{"exactly what is missing", important(map[v1.ResourceName]string{"cpu": "1"}),
			[]*v1.Pod{asks("a", map[v1.ResourceName]string{"cpu": "3"}), asks("b",
				map[v1.ResourceName]string{"cpu": "1"})},
			"b"},
	} {
		others := slices.Clone(c.others)
		if got := preempted(admit.In{Pod: c.pod, Node: big, OtherPods: c.others}); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if !slices.Equal(others, c.others) {
			t.Errorf("%s: the list of Pods was changed", c.name)
		}
	}
}

// Nobody is ended for a Pod that would not be admitted all the same.
func TestNobodyIsEndedForNothing(t *testing.T) {
	others := []*v1.Pod{runningPod("a", "1500m", 0, false)}
	elsewhere := runningPod("new", "1", critical, false)
	elsewhere.Spec.NodeSelector = map[string]string{"disk": "hdd"}
	got := preempted(admit.In{Pod: elsewhere, Node: node(), OtherPods: others})
	if !strings.HasPrefix(got, "NodeAffinity") {
		t.Errorf("another node's labels: got %q, want the refusal NodeAffinity", got)
	}
	confined := runningPod("new", "1", critical, false)
	confined.Spec.Containers[0].SecurityContext = &v1.SecurityContext{AppArmorProfile: &v1.AppArmorProfile{
		Type: "RuntimeDefault"}}
	got = preempted(admit.In{Pod: confined, Node: node(), OtherPods: others})
	if !strings.HasPrefix(got, "AppArmor") {
		t.Errorf("no AppArmor: got %q, want the refusal AppArmor", got)
	}
	if got := preempted(admit.In{Pod: runningPod("new", "3", critical, false), Node: node(),
		OtherPods: []*v1.Pod{runningPod("a", "1", 0, false)}}); !strings.HasPrefix(got,
		"UnexpectedAdmissionError by kubelet/admit: ") || !strings.HasSuffix(got, "; lower the request or free 2000") {
		t.Errorf("more than the node has: got %q, want UnexpectedAdmissionError with what to do", got)
	}
	// a Pod without a priority is not critical
	plain := runningPod("a", "1500m", 0, false)
	plain.Spec.Priority = nil
	if got := preempted(admit.In{Pod: runningPod("new", "1", critical, false), Node: node(),
		OtherPods: []*v1.Pod{plain}}); got != "a" {
		t.Errorf("a Pod without a priority: got %q, want it ended", got)
	}
}

// The order of resizes by one difference each.
func TestOrderOfResizesByOneDifference(t *testing.T) {
	resize := func(name string, change func(*admit.Resize)) admit.Resize {
		r := admit.Resize{Pod: runningPod(name, "1", 0, false), Allocated: runningPod(name, "1", 0, false)}
		change(&r)
		return r
	}
	memory := func(p *v1.Pod, amount string) {
		p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse(amount)
	}
	more := func(r *admit.Resize) { memory(r.Pod, "2Mi") }
	for name, c := range map[string][2]func(*admit.Resize){
		"no more memory first":           {func(*admit.Resize) {}, more},
		"less memory is as good as none": {func(r *admit.Resize) { memory(r.Pod, "512Ki") }, more},
		"Guaranteed first": {func(r *admit.Resize) {
			more(r)
			r.Pod.Spec.Containers[0].Resources.Limits = r.Pod.Spec.Containers[0].Resources.Requests
		}, more},
		"the same CPU is no more": {func(r *admit.Resize) { r.Pod.Spec.Priority = new(int32(1)) },
			func(*admit.Resize) {}},
		"by name at last": {more, more},
	} {
		first, second := resize("b", c[0]), resize("a", c[1])
		if name == "by name at last" {
			first, second = resize("a", c[0]), resize("b", c[1])
		}
		list := []admit.Resize{second, first}
		admit.SortResizes(list)
		if list[0].Pod.Name != first.Pod.Name {
			t.Errorf("%s: got %s first, want %s", name, list[0].Pod.Name, first.Pod.Name)
		}
	}
}
