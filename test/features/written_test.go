package features_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

// What the API server takes and refuses, on a cluster without nodes.
func TestAPIWrites(t *testing.T) {
	t.Parallel()
	w := start(t, testcluster.WithNodes())
	for _, x := range []struct {
		name string
		test func(*fixture)
	}{
		{"restart policies", restartPolicies},                     // row: RST-01
		{"init containers refuse probes and hooks", initRefusals}, // row: ISE-05
		{"sidecar is Always", sidecarPolicies},                    // row: ISE-19
		{"ephemeral containers", ephemeral},                       // row: ISE-27, ISE-28, ISE-29
		{"phase Unknown", phaseUnknown},                           // row: PST-06
		{"options of Windows", windowsOptions},                    // row: SEC-04
		{"Pod security and Windows", windowsSecurity},             // row: SEC-05
		{"levels of Pod security", podSecurityLevels},             // row: SEC-06
		{"ready endpoints", readyEndpoints},                       // row: PST-25
		{"ports of init containers", initPorts},                   // row: ISE-07
		{"budgets count by owners", budgetByOwner},                // row: API-42 (last: its quota lets no more Pods in)
	} {
		t.Run(x.name, func(t *testing.T) { x.test(w.forSubtest(t)) })
	}
}

func restartPolicies(w *fixture) {
	p := scriptPod("policy", "")
	if got := w.create(p).Spec.RestartPolicy; got != v1.RestartPolicyAlways {
		w.t.Errorf("default %q", got)
	}
	for _, ok := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
		p := scriptPod("policy-2", "")
		p.Spec.RestartPolicy = ok
		w.expectAccepted(p)
	}
	p.Spec.RestartPolicy = "Sometimes"
	w.expectRefused(p,
		`spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"`)
}

func withInit(change func(*v1.Container)) *v1.Pod {
	p := scriptPod("init", "")
	p.Spec.InitContainers = []v1.Container{scriptContainer("first", "true")}
	change(&p.Spec.InitContainers[0])
	return p
}

var command = v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}

func initRefusals(w *fixture) {
	w.expectAccepted(withInit(func(*v1.Container) {}))
	for field, change := range map[string]func(*v1.Container){
		"lifecycle": func(c *v1.Container) {
			c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: command.Exec}}
		},
		"livenessProbe":  func(c *v1.Container) { c.LivenessProbe = &v1.Probe{ProbeHandler: command} },
		"readinessProbe": func(c *v1.Container) { c.ReadinessProbe = &v1.Probe{ProbeHandler: command} },
		"startupProbe":   func(c *v1.Container) { c.StartupProbe = &v1.Probe{ProbeHandler: command} },
	} {
		w.expectRefused(withInit(change),
			"spec.initContainers[0]."+field+": Forbidden: may not be set for init containers without "+
				"restartPolicy=Always")
	}
}

func sidecarPolicies(w *fixture) {
	sidecar := func(policy v1.ContainerRestartPolicy) *v1.Pod {
		return withInit(func(c *v1.Container) {
			c.RestartPolicy = &policy
			if policy == v1.ContainerRestartPolicyAlways {
				c.StartupProbe = &v1.Probe{ProbeHandler: command} // only a sidecar may have it
			}
		})
	}
	w.expectAccepted(sidecar(v1.ContainerRestartPolicyAlways))
	w.expectRefused(sidecar("Sometimes"), "spec.initContainers[0].restartPolicy: Unsupported value: \"Sometimes\"")
	p := sidecar(v1.ContainerRestartPolicyNever) // since KEP-5307 a policy of its own, and no sidecar
	w.expectAccepted(p)
	p.Spec.InitContainers[0].StartupProbe = &v1.Probe{ProbeHandler: command}
	w.expectRefused(p,
		"spec.initContainers[0].startupProbe: Forbidden: may not be set for init containers without "+
			"restartPolicy=Always")
}

func ephemeral(w *fixture) {
	p := w.create(scriptPod("debugged", ""))
	debugger := v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "debugger", Image: "debug:1", ImagePullPolicy: v1.PullIfNotPresent,
		TerminationMessagePolicy: v1.TerminationMessageReadFile,
	}}
	pods := w.Client.CoreV1().Pods("default")
	update := func(change func(*v1.Pod)) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			now := w.get("debugged")
			change(now)
			_, err := pods.UpdateEphemeralContainers(w.ctx, "debugged", now, metav1.UpdateOptions{})
			return err
		})
	}
	p.Spec.EphemeralContainers = []v1.EphemeralContainer{debugger}
	p.ResourceVersion = "" // whatever the scheduler wrote meanwhile
	_, err := pods.Update(w.ctx, p, metav1.UpdateOptions{})
	w.expectRefusal(err, "Forbidden: pod updates may not change fields other than")
	w.expectRefused(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "born-so"}, Spec: p.Spec},
		"spec.ephemeralContainers: Forbidden: cannot be set on create")
	for field, change := range map[string]func(*v1.EphemeralContainerCommon){
		"ports":          func(c *v1.EphemeralContainerCommon) { c.Ports = []v1.ContainerPort{{ContainerPort: 80}} },
		"livenessProbe":  func(c *v1.EphemeralContainerCommon) { c.LivenessProbe = &v1.Probe{ProbeHandler: command} },
		"readinessProbe": func(c *v1.EphemeralContainerCommon) { c.ReadinessProbe = &v1.Probe{ProbeHandler: command} },
		"startupProbe":   func(c *v1.EphemeralContainerCommon) { c.StartupProbe = &v1.Probe{ProbeHandler: command} },
		"lifecycle": func(c *v1.EphemeralContainerCommon) {
			c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: command.Exec}}
		},
		"resources": func(c *v1.EphemeralContainerCommon) {
			c.Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
		},
	} {
		bad := *debugger.DeepCopy()
		change(&bad.EphemeralContainerCommon)
		err := update(func(p *v1.Pod) { p.Spec.EphemeralContainers = []v1.EphemeralContainer{bad} })
		w.expectRefusal(err, "spec.ephemeralContainers[0]."+field, "Forbidden",
			"cannot be set for an Ephemeral Container")
	}
	expect.NoError(w.t, update(func(p *v1.Pod) { p.Spec.EphemeralContainers = []v1.EphemeralContainer{debugger} }))
	if got := w.get("debugged").Spec.EphemeralContainers; len(got) != 1 || got[0].Name != "debugger" {
		w.t.Errorf("added: got %+v, want one of them and [0].Name debugger", got)
	}
	second := *debugger.DeepCopy()
	second.Name = "second"
	expect.NoError(w.t,
		update(func(p *v1.Pod) { p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, second) }))
	for _, change := range []func(*v1.EphemeralContainer){
		func(e *v1.EphemeralContainer) { e.Image = "other:1" },
		func(e *v1.EphemeralContainer) { e.Command = []string{"sh"} },
		func(e *v1.EphemeralContainer) { e.Env = []v1.EnvVar{{Name: "A", Value: "1"}} },
		func(e *v1.EphemeralContainer) { e.TTY = true },
		func(e *v1.EphemeralContainer) { e.TargetContainerName = "app" },
		func(e *v1.EphemeralContainer) { e.SecurityContext = &v1.SecurityContext{RunAsUser: ptr(int64(0))} },
	} {
		w.expectRefusal(update(func(p *v1.Pod) { change(&p.Spec.EphemeralContainers[1]) }),
			`existing ephemeral containers "second" may not be changed`)
	}
	w.expectRefusal(update(func(p *v1.Pod) { p.Spec.EphemeralContainers = p.Spec.EphemeralContainers[:1] }),
		`existing ephemeral containers "second" may not be removed`)
	w.expectRefusal(update(func(p *v1.Pod) { p.Spec.EphemeralContainers = nil }),
		`existing ephemeral containers "debugger" may not be removed`)
	w.expectRefusal(update(func(p *v1.Pod) { p.Spec.EphemeralContainers[0].Name = "renamed" }),
		`existing ephemeral containers "debugger" may not be removed`)
}

func phaseUnknown(w *fixture) {
	w.create(scriptPod("unknown", ""))
	_, err := w.Client.CoreV1().Pods("default").Patch(w.ctx, "unknown", types.MergePatchType,
		[]byte(`{"status":{"phase":"Unknown"}}`), metav1.PatchOptions{}, "status")
	expect.NoError(w.t, err)
	if got := w.get("unknown").Status.Phase; got != v1.PodUnknown {
		w.t.Errorf("phase %q", got)
	}
	if got := w.cell("unknown", "Status"); got != "Unknown" {
		w.t.Errorf("printed as %q", got)
	}
}

func windowsOptions(w *fixture) {
	p := scriptPod("windows", "")
	p.Spec.OS = &v1.PodOS{Name: v1.Linux}
	p.Spec.SecurityContext = &v1.PodSecurityContext{WindowsOptions: &v1.WindowsSecurityContextOptions{
		HostProcess: ptr(true)}}
	w.expectRefused(p, "spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod")
	p.Spec.SecurityContext, p.Spec.Containers[0].SecurityContext = nil,
		&v1.SecurityContext{WindowsOptions: &v1.WindowsSecurityContextOptions{RunAsUserName: ptr("me")}}
	w.expectRefused(p,
		"spec.containers[0].securityContext.windowsOptions: Forbidden: windows options cannot be set for a "+
			"linux pod")
	p.Spec.OS.Name = v1.Windows
	w.expectAccepted(p)
	p.Spec.Containers[0].SecurityContext.RunAsUser = ptr(int64(1))
	w.expectRefused(p, "spec.containers[0].securityContext.runAsUser: Forbidden: cannot be set for a windows pod")
}

func windowsSecurity(w *fixture) {
	_, err := w.Client.CoreV1().Namespaces().Create(w.ctx,
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strict",
			Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}, metav1.CreateOptions{})
	expect.NoError(w.t, err)
	w.until("the service account of namespace strict", func() bool {
		_, err := w.Client.CoreV1().ServiceAccounts("strict").Get(w.ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	try := func(os v1.OSName, nonRoot bool) string {
		p := scriptPod("secured", "")
		p.Spec.OS = &v1.PodOS{Name: os}
		p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsNonRoot: &nonRoot}
		_, err := w.Client.CoreV1().Pods("strict").Create(w.ctx, p, metav1.CreateOptions{DryRun: []string{"All"}})
		if err != nil {
			return err.Error()
		}
		return ""
	}
	linux := try(v1.Linux, true)
	for _, word := range []string{"allowPrivilegeEscalation != false", "unrestricted capabilities", "seccompProfile"} {
		if !strings.Contains(linux, word) {
			w.t.Errorf("a Linux Pod is not checked for %q: %s", word, linux)
		}
	}
	if text := try(v1.Windows, true); text != "" {
		w.t.Errorf("a Windows Pod is checked for what only Linux has: %s", text)
	}
	if text := try(v1.Windows, false); !strings.Contains(text, "runAsNonRoot != true") {
		w.t.Errorf("a Windows Pod is not checked for what it has: %s", text)
	}
}

// podSecurityLevels has three Pods tried in a namespace of each level, and in one without a level.
func podSecurityLevels(w *fixture) {
	plain, privileged := scriptPod("leveled", ""), scriptPod("leveled", "")
	privileged.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Privileged: ptr(true)}
	restricted := scriptPod("leveled", "")
	restricted.Spec.SecurityContext = &v1.PodSecurityContext{RunAsNonRoot: ptr(true),
		SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}}
	restricted.Spec.Containers[0].SecurityContext = &v1.SecurityContext{AllowPrivilegeEscalation: ptr(false),
		Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}}}
	for level, want := range map[string]string{"": "plain privileged restricted",
		"privileged": "plain privileged restricted", "baseline": "plain restricted", "restricted": "restricted"} {
		ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "level-" + cmp.Or(level, "none")}}
		if level != "" {
			ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": level}
		}
		_, err := w.Client.CoreV1().Namespaces().Create(w.ctx, ns, metav1.CreateOptions{})
		expect.NoError(w.t, err)
		w.until("the service account of namespace "+ns.Name, func() bool {
			_, err := w.Client.CoreV1().ServiceAccounts(ns.Name).Get(w.ctx, "default", metav1.GetOptions{})
			return err == nil
		})
		var taken []string
		for _, x := range []struct {
			name string
			pod  *v1.Pod
		}{{"plain", plain}, {"privileged", privileged}, {"restricted", restricted}} {
			_, err := w.Client.CoreV1().Pods(ns.Name).Create(w.ctx, x.pod,
				metav1.CreateOptions{DryRun: []string{"All"}})
			if err == nil {
				taken = append(taken, x.name)
			} else if !strings.Contains(err.Error(), `violates PodSecurity "`+level+`:latest"`) {
				w.t.Errorf("level %q, %s: got %v, want a violation of the level", level, x.name, err)
			}
		}
		if got := strings.Join(taken, " "); got != want {
			w.t.Errorf("level %q takes the Pods %q, want %q", level, got, want)
		}
	}
}

func budgetByOwner(w *fixture) {
	labels := map[string]string{"app": "counted"}
	four := int32(4)
	set, err := w.Client.AppsV1().ReplicaSets("default").Create(w.ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "counted"},
		Spec: appsv1.ReplicaSetSpec{Replicas: &four, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: scriptPod("", "").Spec}},
	}, metav1.CreateOptions{})
	expect.NoError(w.t, err)
	w.until("four Pods", func() bool {
		s, err := w.Client.AppsV1().ReplicaSets("default").Get(w.ctx, "counted", metav1.GetOptions{})
		return err == nil && s.Status.Replicas == 4
	})
	// The owner wants twelve, whose Pods a quota keeps from coming: the budget counts what is
	// wanted, not what is there.
	_, err = w.Client.CoreV1().ResourceQuotas("default").Create(w.ctx,
		&v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"},
			Spec: v1.ResourceQuotaSpec{Hard: v1.ResourceList{"pods": resource.MustParse("1")}}}, metav1.CreateOptions{})
	expect.NoError(w.t, err)
	w.until("admission to know the quota's status", func() bool {
		_, err := w.Client.CoreV1().Pods("default").Create(w.ctx, scriptPod("one-more", ""),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err)
	})
	defer func() {
		expect.NoError(w.t, w.Client.CoreV1().ResourceQuotas("default").Delete(w.ctx, "few", metav1.DeleteOptions{}))
	}()
	_, err = w.Client.AppsV1().ReplicaSets("default").Patch(w.ctx, set.Name, types.MergePatchType,
		[]byte(`{"spec":{"replicas":12}}`), metav1.PatchOptions{})
	expect.NoError(w.t, err)
	half := intstr.FromString("50%")
	_, err = w.Client.PolicyV1().PodDisruptionBudgets("default").Create(w.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "half"}, Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &half,
			Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{})
	expect.NoError(w.t, err)
	w.until("the budget's sums", func() bool {
		b, err := w.Client.PolicyV1().PodDisruptionBudgets("default").Get(w.ctx, "half", metav1.GetOptions{})
		return err == nil && b.Status.ExpectedPods == 12 && b.Status.DesiredHealthy == 6
	})
	if list, err := w.Client.CoreV1().Pods("default").List(w.ctx,
		metav1.ListOptions{LabelSelector: "app=counted"}); err != nil || len(list.Items) != 4 {
		w.t.Errorf("%d Pods, want 4: %v", len(list.Items), err)
	}
}

// served makes a Pod on a node that is only a name here, with an address, and a Service of one port
// over it; it returns the Pod.
func (w *fixture) served(p *v1.Pod, address string, target intstr.IntOrString) *v1.Pod {
	w.t.Helper()
	p.Labels = map[string]string{"serves": p.Name}
	p.Spec.NodeName = "elsewhere"
	if _, err := w.Client.CoreV1().Nodes().Create(w.ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.Spec.NodeName}},
		metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		expect.NoError(w.t, err)
	}
	p = w.create(p)
	_, err := w.Client.CoreV1().Services("default").Create(w.ctx, &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name},
		Spec: v1.ServiceSpec{Selector: p.Labels,
			Ports: []v1.ServicePort{{Name: "web", Port: 80, TargetPort: target}}},
	}, metav1.CreateOptions{})
	expect.NoError(w.t, err)
	return w.report(p.Name, address, v1.ConditionFalse)
}

// report writes the status of a Pod that runs.
func (w *fixture) report(pod, address string, ready v1.ConditionStatus) *v1.Pod {
	w.t.Helper()
	text := fmt.Sprintf(
		`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}],"conditions":[{"type":"Ready","status":%q,`+
			`"lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`, address, address, ready)
	p, err := w.Client.CoreV1().Pods("default").Patch(w.ctx, pod, types.StrategicMergePatchType, []byte(text),
		metav1.PatchOptions{}, "status")
	expect.NoError(w.t, err)
	return p
}

// slice waits until the Service's only EndpointSlice is as ok says.
func (w *fixture) slice(service string, ok func(*discoveryv1.EndpointSlice) bool) {
	w.t.Helper()
	w.until("the endpoints of "+service, func() bool {
		list, err := w.Client.DiscoveryV1().EndpointSlices("default").List(w.ctx,
			metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
		return err == nil && len(list.Items) == 1 && ok(&list.Items[0])
	})
}

func readyEndpoints(w *fixture) {
	w.served(scriptPod("traffic", ""), "10.1.1.1", intstr.FromInt32(8080))
	endpoint := func(ready bool) func(*discoveryv1.EndpointSlice) bool {
		return func(s *discoveryv1.EndpointSlice) bool {
			return len(s.Endpoints) == 1 && s.Endpoints[0].Addresses[0] == "10.1.1.1" &&
				*s.Endpoints[0].Conditions.Ready == ready
		}
	}
	w.slice("traffic", endpoint(false)) // the Pod's phase is Running
	w.report("traffic", "10.1.1.1", v1.ConditionTrue)
	w.slice("traffic", endpoint(true))
}

func initPorts(w *fixture) {
	p := scriptPod("ports", "")
	p.Spec.InitContainers = []v1.Container{scriptContainer("first", "true")}
	p.Spec.InitContainers[0].Ports = []v1.ContainerPort{{Name: "early", ContainerPort: 81}}
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{Name: "late", ContainerPort: 82}}
	w.served(p, "10.1.1.2", intstr.FromString("early"))
	w.report("ports", "10.1.1.2", v1.ConditionTrue)
	w.slice("ports", func(s *discoveryv1.EndpointSlice) bool { return len(s.Ports) == 0 })
	_, err := w.Client.CoreV1().Services("default").Patch(w.ctx, "ports", types.MergePatchType,
		[]byte(`{"spec":{"ports":[{"name":"web","port":80,"targetPort":"late"}]}}`), metav1.PatchOptions{})
	expect.NoError(w.t, err)
	w.slice("ports", func(s *discoveryv1.EndpointSlice) bool {
		return len(s.Ports) == 1 && *s.Ports[0].Port == 82 && len(s.Endpoints) == 1
	})
}
